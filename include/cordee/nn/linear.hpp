// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The classifier at the end: y = W x + b on one number a channel.
//
// W begins normal with deviation 1 / sqrt(features), b at zero. (Goyal et al., 2017, say 0.01, for
// 2,048 features; with the 64 of a CIFAR network LARS, whose steps are shares of |W|, needs epochs
// to leave it.)
#pragma once

#include <cordee/nn/layer.hpp>
#include <cordee/ops/linear.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

template <class B>
class linear_node {
  using number = typename B::number;
  using real = typename B::real;

 public:
  linear_node(const extent& in, int classes, placement& to)
      : in_(in),
        problem_{static_cast<std::size_t>(in.channels), static_cast<std::size_t>(classes),
                 B::numbers(in)},
        segment_(to.next),
        weights_(to.table[segment_].offset),
        bias_(to.table[segment_ + 1].offset),
        packed_(to.template take_image<number>(matrix())),
        packed_bias_(to.template take_image<real>(problem_.outputs)),
        activation_(to.activation++) {
    to.next += 2;
    to.meet(std::max(B::numbers(in), problem_.outputs));
  }

  void publish(const publish_pass<B>& pass) const {
    convert(matrix(), pass.plane + weights_, pass.template at<number>(packed_), pass.s);
    pass.where.copy(pass.template at<real>(packed_bias_), pass.plane + bias_,
                    problem_.outputs * sizeof(real), pass.s);
  }

  /// (samples, classes), without padding.
  const number* forward(const forward_pass<B>& pass, const number* x) {
    number* const y = pass.room(activation_, problem_.outputs);
    x_ = x;
    linear_forward(problem_, pass.samples, x, pass.template at<number>(packed_),
                   pass.template at<real>(packed_bias_), y, pass.s);
    return y;
  }

  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, destination<number> to, Ready& ready) {
    linear_weight_gradient(problem_, pass.samples, x_, static_cast<const number*>(dy),
                           pass.plane + weights_, pass.plane + bias_, pass.mode, pass.s);
    number* dx = pass.gradients->take();
    linear_input_gradient(problem_, pass.samples, static_cast<const number*>(dy),
                          pass.template at<number>(packed_), dx, pass.s);
    pass.gradients->give(dy);
    dx = deliver(pass, in_, dx, to);
    ready(segment_ + 1);
    ready(segment_);
    return dx;
  }

 private:
  [[nodiscard]] std::size_t matrix() const { return problem_.features * problem_.outputs; }

  extent in_;
  linear_problem problem_;
  std::size_t segment_, weights_, bias_, packed_, packed_bias_, activation_;
  const number* x_ = nullptr;
};

}  // namespace detail

template <int Classes>
struct linear {
  static_assert(Classes > 0, "a classifier needs at least one class");

  static constexpr extent out(const extent&) { return {Classes, 1, 1}; }
  static constexpr void describe(const extent& in, catalogue& to) {
    const auto mark = to.named("fc", false);
    to.tensor("weight", kind::weight, {Classes, in.channels}, {.variance = 1.0 / in.channels});
    to.tensor("bias", kind::bias, {Classes}, {});
    to.work(std::int64_t{Classes} * in.channels, 0);
    to.back(mark);
  }

  template <class B, extent In>
  static auto bind(placement& to) {
    static_assert(In.height == 1 && In.width == 1,
                  "linear reads one number a channel: put global_average_pool before it");
    return detail::linear_node<B>(In, Classes, to);
  }
};

}  // namespace cordee::inline CORDEE_ABI
