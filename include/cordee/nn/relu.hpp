// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// ReLU, y = max(x, 0), and the identity. Each is a layer, and the name of an activation that
// batch_norm fuses.
#pragma once

#include <cordee/nn/layer.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail::nn {

template <class B>
class identity_node {
  using number = typename B::number;

 public:
  static constexpr bool skips_frozen_gradients = true;
  identity_node(const extent& in, layout_builder& layout) : in_(in) {
    layout.note_activation_size(B::numbers(in));
  }
  void pack_parameters(const pack_pass<B>&) const {}

  const number* forward(const forward_pass<B>&, const number* x) { return x; }
  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, gradient_target<number> target,
                   Ready&) {
    return pass.route_input_gradient(in_, dy, target);
  }

 private:
  extent in_;
};

template <class B>
class relu_node {
  using number = typename B::number;

 public:
  static constexpr bool skips_frozen_gradients = true;
  relu_node(const extent& in, layout_builder& layout)
      : in_(in), activation_(layout.add_activation(sizeof(number) * B::numbers(in))) {
    layout.note_activation_size(B::numbers(in));
  }
  void pack_parameters(const pack_pass<B>&) const {}

  const number* forward(const forward_pass<B>& pass, const number* x) {
    number* const y = pass.buffer_for(activation_, B::numbers(in_));
    // for a GPU by argument-dependent lookup: ops/gpu/elementwise.hpp
    relu_forward(static_cast<std::size_t>(pass.samples) * B::numbers(in_), x, y, pass.s);
    return y_ = y;
  }
  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, gradient_target<number> target,
                   Ready&) {
    // for a GPU by argument-dependent lookup: ops/gpu/elementwise.hpp
    relu_backward(static_cast<std::size_t>(pass.samples) * B::numbers(in_), y_, dy, pass.s);
    return pass.route_input_gradient(in_, dy, target);
  }

 private:
  extent in_;
  std::size_t activation_;
  const number* y_ = nullptr;
};

}  // namespace detail::nn

/// The identity, as a layer, a batch norm's activation, or a block's shortcut.
struct identity {
  static constexpr extent out(const extent& in) { return in; }           ///< See Layer.
  static constexpr void describe(const extent&, parameter_registry&) {}  ///< Adds nothing.
  /// See Layer.
  template <class B, extent In>
  static auto bind(layout_builder& layout) {
    return detail::nn::identity_node<B>(In, layout);
  }
};

/// ReLU, as a layer or a batch norm's activation.
struct relu {
  static constexpr extent out(const extent& in) { return in; }           ///< See Layer.
  static constexpr void describe(const extent&, parameter_registry&) {}  ///< Adds nothing.
  /// See Layer.
  template <class B, extent In>
  static auto bind(layout_builder& layout) {
    return detail::nn::relu_node<B>(In, layout);
  }
};

}  // namespace cordee::inline CORDEE_ABI
