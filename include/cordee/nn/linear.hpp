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
  class bound {
    static_assert(In.height == 1 && In.width == 1,
                  "linear reads one number a channel: put global_average_pool before it");
    using number = typename B::number;
    using real = typename B::real;
    static constexpr linear_problem at{static_cast<std::size_t>(In.channels),
                                       static_cast<std::size_t>(Classes), B::numbers(In)};

   public:
    static constexpr extent out{Classes, 1, 1};
    static constexpr std::size_t largest = std::max(B::numbers(In), at.outputs);

    bound(placement& to)
        : segment_(to.next),
          weights_(to.table[segment_].offset),
          bias_(to.table[segment_ + 1].offset),
          packed_(to.template take_image<number>(at.features * at.outputs)),
          packed_bias_(to.template take_image<real>(at.outputs)),
          activation_(to.activation++) {
      to.next += 2;
    }

    void publish(const publish_pass<B>& pass) const {
      convert(at.features * at.outputs, pass.plane + weights_, pass.template at<number>(packed_),
              pass.s);
      pass.where.copy(pass.template at<real>(packed_bias_), pass.plane + bias_,
                      at.outputs * sizeof(real), pass.s);
    }

    /// (samples, classes), without padding.
    const number* forward(const forward_pass<B>& pass, const number* x) {
      number* const y = pass.room(activation_, at.outputs);
      x_ = x;
      linear_forward(at, pass.samples, x, pass.template at<number>(packed_),
                     pass.template at<real>(packed_bias_), y, pass.s);
      return y;
    }

    template <class Ready>
    number* backward(const backward_pass<B>& pass, number* dy, destination<number> to,
                     Ready& ready) {
      linear_weight_gradient(at, pass.samples, x_, static_cast<const number*>(dy),
                             pass.plane + weights_, pass.plane + bias_, pass.mode, pass.s);
      number* dx = pass.gradients->take();
      linear_input_gradient(at, pass.samples, static_cast<const number*>(dy),
                            pass.template at<number>(packed_), dx, pass.s);
      pass.gradients->give(dy);
      dx = deliver(pass, In, dx, to);
      ready(segment_ + 1);
      ready(segment_);
      return dx;
    }

   private:
    std::size_t segment_, weights_, bias_, packed_, packed_bias_, activation_;
    const number* x_ = nullptr;
  };
};

}  // namespace cordee::inline CORDEE_ABI
