// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The classifier, y = W x + b, on one number per channel.
//
// Initially W is normal with deviation 1 / sqrt(features), b is zero. (Goyal et al., 2017, use 0.01
// for 2,048 features; with the 64 of a CIFAR network, LARS, whose steps are proportional to |W|,
// needs epochs to grow such small weights.)
//
// On a GPU in 16 bits (backend::linear_is_convolution) the engine computes W x as a 1x1 convolution
// of one-pixel images. An engine's fprop has no bias (ops/convolution.hpp), and pads y's channels,
// which logits lack: a separate launch adds the bias and drops padded classes.
#pragma once

#include <cordee/nn/convolution_node.hpp>
#include <cordee/nn/layer.hpp>
#include <cordee/nn/sample_gradients.hpp>
#include <cordee/ops/cpu/linear.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail::nn {

template <class B>
class linear_node {
  using number = typename B::number;
  using real = typename B::real;

 public:
  static constexpr bool skips_frozen_gradients = true;
  linear_node(const extent& in, int classes, layout_builder& layout)
      : in_(in),
        problem_{static_cast<std::size_t>(in.channels), static_cast<std::size_t>(classes),
                 B::numbers(in)},
        segment_(layout.next_segment),
        weights_(layout.table[segment_].offset),
        bias_(layout.table[segment_ + 1].offset),
        packed_(layout.template reserve_packed<number>(matrix())),
        packed_bias_(layout.template reserve_packed<real>(problem_.outputs)),
        activation_(layout.add_last_activation(sizeof(number) * problem_.outputs)) {
    layout.next_segment += 2;
    layout.note_activation_size(std::max(B::numbers(in), problem_.outputs));
    if constexpr (B::packs_by_table) {
      auto matrix_of = detail::ops::packed_vector(weights_, packed_, matrix(), matrix());
      matrix_of.is_number = true;
      layout.add_packed(matrix_of);
      layout.add_packed(
          detail::ops::packed_vector(bias_, packed_bias_, problem_.outputs, problem_.outputs));
    }
  }

  void pack_parameters(const pack_pass<B>& pass) const {
    // for a GPU by argument-dependent lookup: ops/gpu/filter_layout.hpp
    convert(matrix(), pass.plane + weights_, pass.template packed_at<number>(packed_), pass.s);
    pass.device.copy(pass.template packed_at<real>(packed_bias_), pass.plane + bias_,
                     problem_.outputs * sizeof(real), pass.s);
  }

  /// (samples, classes), without padding.
  const number* forward(const forward_pass<B>& pass, const number* x) {
    number* const y = pass.buffer_for(activation_, problem_.outputs);
    x_ = x;
    // for a GPU by argument-dependent lookup: ops/gpu/linear.hpp
    linear_forward(problem_, pass.samples, x, pass.template packed_at<number>(packed_),
                   pass.template packed_at<real>(packed_bias_), y, pass.s);
    return y;
  }

  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, gradient_target<number> target,
                   Ready& ready) {
    real* const dw = pass.gradient_at(segment_, weights_);
    real* const db = pass.gradient_at(segment_ + 1, bias_);
    // for a GPU by argument-dependent lookup: ops/gpu/linear.hpp
    if (dw != nullptr || db != nullptr)
      linear_weight_gradient(problem_, pass.samples, x_, static_cast<const number*>(dy), dw, db,
                             pass.mode, pass.s);
    if constexpr (is_observed<Ready>)
      ready.observe(segment_, linear_samples<number>{problem_, pass.samples, x_, dy});
    number* dx = pass.gradients->acquire(static_cast<std::size_t>(pass.samples) * B::numbers(in_));
    linear_input_gradient(problem_, pass.samples, static_cast<const number*>(dy),
                          pass.template packed_at<number>(packed_), dx, pass.s);
    pass.gradients->release(dy);
    dx = pass.route_input_gradient(in_, dx, target);
    ready(segment_ + 1);
    ready(segment_);
    return dx;
  }

 private:
  [[nodiscard]] std::size_t matrix() const { return problem_.features * problem_.outputs; }

  extent in_;
  ops::linear_problem problem_;
  std::size_t segment_, weights_, bias_, packed_, packed_bias_, activation_;
  const number* x_ = nullptr;
};

/// A convolution computes W x, rounded to 16 bits, and the gradients of W and of x; the sum with b
/// is rounded once more. With u the unit roundoff, a logit y is off by at most u (|W x| + |y|), to
/// first order, where linear_node's is by u |y|.
template <class B>
class linear_as_convolution_node {
  using number = typename B::number;
  using real = typename B::real;

 public:
  static constexpr bool skips_frozen_gradients = true;
  linear_as_convolution_node(const extent& in, int classes, layout_builder& layout)
      : classes_(static_cast<std::size_t>(classes)),
        filters_(B::numbers({classes, 1, 1})),
        product_({in, classes}, layout),
        segment_(layout.next_segment++),
        bias_(layout.table[segment_].offset),
        packed_bias_(layout.template reserve_packed<real>(classes_)),
        activation_(layout.add_last_activation(sizeof(number) * classes_)) {
    if constexpr (B::packs_by_table)
      layout.add_packed(detail::ops::packed_vector(bias_, packed_bias_, classes_, classes_));
  }

  void pack_parameters(const pack_pass<B>& pass) const {
    product_.pack_parameters(pass);
    pass.device.copy(pass.template packed_at<real>(packed_bias_), pass.plane + bias_,
                     classes_ * sizeof(real), pass.s);
  }

  /// (samples, classes), without padding.
  const number* forward(const forward_pass<B>& pass, const number* x) {
    const number* const product = product_.forward(pass, x);  // (samples, filters)
    number* const y = pass.buffer_for(activation_, classes_);
    // for a GPU by argument-dependent lookup: ops/gpu/linear.hpp
    add_bias(pass.samples, product, filters_, pass.template packed_at<real>(packed_bias_), y,
             classes_, pass.s);
    return y;
  }

  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, gradient_target<number> target,
                   Ready& ready) {
    // for a GPU by argument-dependent lookup: ops/gpu/linear.hpp
    if (!pass.is_frozen(segment_))
      linear_bias_gradient(classes_, pass.samples, static_cast<const number*>(dy),
                           pass.gradient_at(segment_, bias_), pass.mode, pass.s);
    ready(segment_);
    if (filters_ != classes_) {
      number* const padded =  // (samples, filters)
          pass.gradients->acquire(static_cast<std::size_t>(pass.samples) * filters_);
      const real* const no_bias = nullptr;
      add_bias(pass.samples, static_cast<const number*>(dy), classes_, no_bias, padded, filters_,
               pass.s);
      pass.gradients->release(dy);
      dy = padded;
    }
    return product_.backward(pass, dy, target, ready);
  }

 private:
  std::size_t classes_, filters_;  // filters: with padding
  convolution_node<B> product_;
  std::size_t segment_, bias_, packed_bias_, activation_;
};

}  // namespace detail::nn

/// Fully connected layer, a network's last.
template <int Classes>
struct linear {
  static_assert(Classes > 0, "a classifier needs at least one class");

  static constexpr extent out(const extent&) { return {Classes, 1, 1}; }  ///< See Layer.
  /// Adds "fc.weight", (Classes, channels), and "fc.bias", (Classes).
  static constexpr void describe(const extent& in, parameter_registry& registry) {
    const auto parent = registry.enter_named("fc", false);
    registry.add_tensor("weight", kind::weight, {Classes, in.channels},
                        {.variance = 1.0 / in.channels});
    registry.add_tensor("bias", kind::bias, {Classes}, {});
    registry.add_macs(std::int64_t{Classes} * in.channels, 0);
    registry.leave(parent);
  }

  /// See Layer. An input of more than one pixel is a compile error.
  template <class B, extent In>
  static auto bind(layout_builder& layout) {
    static_assert(In.height == 1 && In.width == 1,
                  "linear reads one number for each channel: put global_average_pool before it");
    if constexpr (B::linear_is_convolution)
      return detail::nn::linear_as_convolution_node<B>(In, Classes, layout);
    else
      return detail::nn::linear_node<B>(In, Classes, layout);
  }
};

}  // namespace cordee::inline CORDEE_ABI
