// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Dropout as a layer (ops/dropout.hpp), with the network's `dropout_rate`; in evaluation it does
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cordee/core/error.hpp>
#include <cordee/nn/layer.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/sequential.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail::nn {

template <class B>
class dropout_node {
  using number = typename B::number;

 public:
  static constexpr bool skips_frozen_gradients = true;
  dropout_node(const extent& in, layout_builder& layout)
      : in_(in),
        layer_(layout.dropouts++),
        activation_(layout.add_activation(sizeof(number) * B::numbers(in))) {
    layout.note_activation_size(B::numbers(in));
  }
  void pack_parameters(const pack_pass<B>&) const {}

  const number* forward(const forward_pass<B>& pass, const number* x) {
    random_ = pass.dropout;
    if (random_.rate == 0) return x;
    number* const y = pass.buffer_for(activation_, B::numbers(in_));
    apply(pass.samples, x, y, pass.s);
    return y;
  }
  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, gradient_target<number> target,
                   Ready&) {
    if (random_.rate > 0) apply(pass.samples, dy, dy, pass.s);
    return pass.route_input_gradient(in_, dy, target);
  }

 private:
  void apply(int samples, const number* x, number* y, typename B::stream s) const {
    const std::size_t numbers = B::numbers(in_);
    expects(static_cast<std::size_t>(samples) * numbers <= INT32_MAX,
            "dropout: a batch has fewer than 2^31 numbers");
    // for a GPU by argument-dependent lookup: device/gpu_kernel.hpp
    for_each(s, static_cast<std::size_t>(samples) * numbers,
             ops::dropout_op<number>{random_, layer_, ops::fast_divisor(static_cast<int>(numbers)),
                                     x, y});
  }

  extent in_;
  std::uint32_t layer_;
  std::size_t activation_;
  ops::dropout_numbers random_;  // of the last forward pass
};

}  // namespace detail::nn

/// Dropout of single activations, before `linear`.
struct dropout {
  static constexpr extent out(const extent& in) { return in; }           ///< See Layer.
  static constexpr void describe(const extent&, parameter_registry&) {}  ///< Adds nothing.
  /// See Layer. An input of more than one pixel is a compile error; 2^31 numbers in a batch or more
  /// are a usage_error of the pass.
  template <class B, extent In>
  static auto bind(layout_builder& layout) {
    static_assert(In.height == 1 && In.width == 1,
                  "dropout reads one number for each channel: put global_average_pool before it");
    return detail::nn::dropout_node<B>(In, layout);
  }
};

namespace detail::nn {

/// The last layers of a residual network.
template <bool Dropout, int Classes>
using classifier =
    std::conditional_t<Dropout, sequential<dropout, linear<Classes>>, linear<Classes>>;

}  // namespace detail::nn

}  // namespace cordee::inline CORDEE_ABI
