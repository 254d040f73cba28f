// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A convolution without bias, y = w * x, padded by half its window; batch norm follows it.
//
// It begins normal with variance 2 / (filters window^2): He et al., 2015, by the fan out.
#pragma once

#include <cordee/nn/layer.hpp>
#include <cordee/nn/quantised_convolution.hpp>
#include <cordee/ops/convolution.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

template <class B>
class convolution_node {
  using number = typename B::number;
  using engine = typename B::engine;
  static_assert(ConvolutionEngine<engine, number, typename B::real, typename B::stream>,
                "this engine does not compute convolutions in this precision");

 public:
  [[gnu::cold, gnu::noinline]] convolution_node(const convolution_problem& problem, placement& to)
      : problem_(problem),
        segment_(to.next++),
        weights_(to.table[segment_].offset),
        image_(to.template take_image<number>(engine{}.template packed_size<number>(problem))),
        activation_(to.activation++) {
    to.meet(std::max(B::numbers(problem.in), B::numbers(problem.out())));
  }

  void publish(const publish_pass<B>& pass) const {
    engine{}.template pack<number>(problem_, pass.plane + weights_,
                                   pass.template at<number>(image_), pass.s);
  }

  const number* forward(const forward_pass<B>& pass, const number* x) {
    number* const y = pass.room(activation_, B::numbers(problem_.out()));
    x_ = x;
    engine{}.template fprop<number>(problem_, pass.samples, x, pass.template at<number>(image_), y,
                                    pass.s);
    return y;
  }

  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, destination<number> to, Ready& ready) {
    pass.workspace->reserve(engine{}.template workspace<number>(problem_, pass.samples, pass.s));
    engine{}.template wgrad<number>(problem_, pass.samples, x_, dy, pass.plane + weights_,
                                    pass.mode, pass.workspace->span().data, pass.s);
    number* dx = nullptr;
    if (to.wanted) {
      dx = to.onto != nullptr ? to.onto : pass.gradients->take();
      engine{}.template dgrad<number>(problem_, pass.samples, dy, pass.template at<number>(image_),
                                      dx, to.onto != nullptr ? into::add : into::overwrite, pass.s);
    }
    pass.gradients->give(dy);
    ready(segment_);
    return dx;
  }

 private:
  convolution_problem problem_;
  std::size_t segment_, weights_, image_, activation_;
  const number* x_ = nullptr;
};

}  // namespace detail

template <int Filters, int Window = 3, int Stride = 1>
struct convolution {
  static_assert(Filters > 0 && Window > 0 && Window % 2 == 1 && Stride > 0,
                "a convolution needs filters, an odd window and a positive stride");

  static constexpr convolution_problem problem(const extent& in) {
    return {in, Filters, Window, Stride, Window / 2};
  }
  static constexpr extent out(const extent& in) { return problem(in).out(); }
  static constexpr void describe(const extent& in, catalogue& to) {
    const auto mark = to.convolution();
    to.tensor("weight", kind::weight, {Filters, in.channels, Window, Window},
              {.variance = 2.0 / (Filters * Window * Window)});
    to.input_range();
    to.work(problem(in).macs(), 1);
    to.back(mark);
  }

  template <class B, extent In>
  static auto bind(placement& to) {
    static_assert(In.channels > 0 && In.height > 0 && In.width > 0,
                  "a convolution needs an image: its input has no pixels or no channels");
    static_assert(Stride == 1 || (In.height >= Stride && In.width >= Stride),
                  "a stride larger than the image skips it: use a larger image, fewer stages or "
                  "stride 1");
    if constexpr (Quantised<typename B::precision>)
      return detail::quantised_convolution_node<B>(problem(In), to);
    else
      return detail::convolution_node<B>(problem(In), to);
  }
};

}  // namespace cordee::inline CORDEE_ABI
