// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Gradient checkpointing (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016): only
// a block's input and output are kept; backward recomputes the block's activations.
//
//   forward    y = f(x); all but y in memory that the next recomputed block overwrites
//   backward   f(x) again, in the memory of later blocks' outputs, too; then dx of dy
//
// The bits are those of the block itself: batch norms keep their coefficients, so statistics are
// computed, exchanged between ranks and averaged once; dropout's numbers depend only on seed,
// sample and layer. The price is nearly one more forward pass, without the statistics.
//
//   using block = recompute<residual<body, batch_norm<>>>;         // of a network of one's own
//   resnet<50, fp32, cpu, resnet_options{.recompute = true}> net;  // ImageNet's stem, each block
#pragma once

#include <cstddef>
#include <optional>
#include <type_traits>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/error.hpp>
#include <cordee/nn/layer.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail::nn {

template <class N>
struct copy_op {
  const N* from;
  N* to;
  CORDEE_HOST_DEVICE void operator()(std::size_t i) const { to[i] = from[i]; }
};

template <class B, class Node>
class recompute_node {
  using number = typename B::number;

 public:
  static constexpr bool skips_frozen_gradients = SkipsFrozenGradients<Node>;
  static constexpr bool keeps_order = true;
  /// `before`: the recomputed blocks before it; `most`: what it and those have at a time at most.
  recompute_node(const Node& node, const block_stack& before, const buffer_sizes& most,
                 std::size_t numbers)
      : node_(node), before_(before), most_(most), numbers_(numbers) {}

  void pack_parameters(const pack_pass<B>& pass) const { node_.pack_parameters(pass); }

  const number* forward(const forward_pass<B>& pass, const number* x) {
    x_ = x;
    has_forward_ = true;
    pass_ = pass;
    number* const y = begin_block();
    const number* const computed = node_.forward(pass, x);
    // for a GPU by argument-dependent lookup: device/gpu_kernel.hpp
    if (computed != y) for_each(pass.s, size(), copy_op<number>{computed, y});
    pass.saved->end_block_forward();
    return y;
  }
  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, gradient_target<number> target,
                   Ready& ready) {
    // Backward has changed batch norms' coefficients.
    expects(has_forward_, "recompute: a second backward pass of one forward pass: call forward");
    if (!pass_->saved->holds_block(this)) {
      begin_block();
      pass_->recomputes = true;
      node_.forward(*pass_, x_);
    }
    has_forward_ = false;
    pass_->saved->begin_block_backward(before_.most);
    number* const dx = node_.backward(pass, dy, target, ready);
    pass_->saved->end_block_backward();
    return dx;
  }

 private:
  [[nodiscard]] std::size_t size() const {
    return static_cast<std::size_t>(pass_->samples) * numbers_;
  }
  /// Returns the memory of the output, before that of the activations.
  number* begin_block() {
    return reinterpret_cast<number*>(
        pass_->saved->begin_block(this, before_.outputs, most_, size() * sizeof(number)));
  }

  Node node_;
  block_stack before_;
  buffer_sizes most_;
  std::size_t numbers_;  // of a sample's output
  const number* x_ = nullptr;
  bool has_forward_ = false;
  std::optional<forward_pass<B>> pass_;  // the last one
};

}  // namespace detail::nn

/// Layer L with activation checkpointing: backward recomputes its activations, once after each
/// forward, else usage_error; see the header's top. Within another recompute it is a usage_error;
/// in int8 a compile error, since ranges would be observed twice.
template <Layer L>
struct recompute {
  static constexpr extent out(const extent& in) { return L::out(in); }  ///< See Layer.
  /// Adds the parameters of L, under the same names as without recompute.
  static constexpr void describe(const extent& in, parameter_registry& registry) {
    L::describe(in, registry);
  }
  /// See Layer.
  template <class B, extent In>
  [[gnu::cold]] static auto bind(layout_builder& layout) {
    static_assert(!Quantized<typename B::precision>,
                  "recompute: int8 observes ranges in forward, once: use fp32, bf16 or fp16");
    expects(
        layout.block == nullptr,
        "recompute: a recomputed block is within another one, or in offload_activations: put one "
        "beside the other");
    const auto before = layout.recomputed;
    constexpr std::size_t numbers = B::numbers(out(In));
    const std::size_t packed = layout.packed_size;
    detail::nn::buffer_sizes activations;
    const auto begin = layout.begin_block();
    const auto noted = std::exchange(layout.noted, {});
    layout.block = &activations;
    auto node = L::template bind<B, In>(layout);
    constexpr bool writes_output = requires { node.write_block_output(); };
    if constexpr (writes_output) node.write_block_output();
    constexpr std::size_t output = sizeof(typename B::number) * numbers;
    layout.note_gradients(begin.parts, output + sizeof(typename B::number) * B::numbers(In));
    layout.block = nullptr;
    layout.noted = noted;
    layout.recomputed.add(activations, output, writes_output);
    layout.pass.add_block(begin,
                          {activations, output, writes_output, detail::nn::block_memory::recomputed,
                           layout.packed_size - packed});
    return detail::nn::recompute_node<B, decltype(node)>(node, before, layout.recomputed.most,
                                                         numbers);
  }
};

namespace detail::nn {

/// L, recomputed or not.
template <bool Recomputed, Layer L>
using block_of = std::conditional_t<Recomputed, recompute<L>, L>;

/// L as it is, a block that recompute could take.
template <Layer L>
struct plain_block {
  static constexpr extent out(const extent& in) { return L::out(in); }
  static constexpr void describe(const extent& in, parameter_registry& registry) {
    L::describe(in, registry);
  }
  template <class B, extent In>
  [[gnu::cold]] static auto bind(layout_builder& layout) {
    const auto begin = layout.begin_block();
    auto node = L::template bind<B, In>(layout);
    layout.end_block(begin, sizeof(typename B::number) * B::numbers(out(In)), false);
    return node;
  }
};
template <Layer L>
struct first_layer<plain_block<L>> : first_layer<L> {};

}  // namespace detail::nn

}  // namespace cordee::inline CORDEE_ABI
