// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Weights by block: the packed weights of a network are in page-locked host memory, and the device
// has two slots of the largest block's size. While block k computes, the next block's weights are
// uploaded on a separate stream to the previous block's slot (device/weight_slots.hpp).
//
//   using block = offload_weights<residual<body, batch_norm<>>>;  // of a network of one's own
//   resnet<50, fp16, gpu, resnet_options{.offload_weights = true}> net;  // stem, blocks, linear
//
// Kernels and their order are those without offloading, so the bits are the same. With P bytes of
// packed weights, of which the last two blocks have L, an evaluation uploads P bytes, a training
// pass 2 P - L. If weights are packed in separate forms for forward and backward (int8 on a GPU,
// engine tensor_core), each pass uploads its own. pack_parameters writes P bytes to the host.
// Gradients, master weights and statistics stay on the device. On the CPU, whose weights are in
// host memory, nothing is copied.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

#include <cordee/core/concat.hpp>
#include <cordee/core/owned_ptr.hpp>
#include <cordee/device/weight_slots.hpp>
#include <cordee/nn/layer.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail::nn {

template <class B, class Node>
class offload_weights_node {
  using number = typename B::number;

 public:
  static constexpr bool skips_frozen_gradients = SkipsFrozenGradients<Node>;
  static constexpr bool keeps_order = KeepsOrder<Node>;
  offload_weights_node(const Node& node, std::size_t block) : node_(node), block_(block) {}

  void pack_parameters(const pack_pass<B>& pass) const { node_.pack_parameters(pass); }

  template <class... Next>
  const number* forward(const forward_pass<B>& pass, const number* x, Next&... next) {
    return in_slot(pass, [&](const auto& p) { return forward_before(node_, p, x, next...); });
  }
  template <class Ready, class... Previous>
  number* backward(const backward_pass<B>& pass, number* dy, gradient_target<number> target,
                   Ready& ready, Previous&... previous) {
    return in_slot(pass, [&](const auto& p) {
      if constexpr (sizeof...(previous) == 0)
        return node_.backward(p, dy, target, ready);
      else
        return backward_behind(node_, p, dy, target, ready, previous...);
    });
  }
  auto input_target(const forward_pass<B>& pass)
    requires QuantizesInput<Node, B>
  {
    return node_.input_target(pass);
  }
  auto gradient_operands(const backward_pass<B>& pass)
    requires HasGradientOperands<Node, B>
  {
    return node_.gradient_operands(pass);
  }

 private:
  template <class Pass, class F>
  auto in_slot(const Pass& pass, const F& f) {
    if constexpr (B::device::host_memory) {
      return f(pass);
    } else {
      Pass own = pass;
      own.packed = pass.slots->enter(block_, pass.s);
      const auto result = f(own);
      pass.slots->leave(block_, pass.s);
      return result;
    }
  }

  Node node_;
  std::size_t block_;
};

template <class D>
struct packed_memory<D, true> {
  using type = device::pinned_weights<D>;
  class slots {
   public:
    slots(const D& device, layout_builder& layout)
        : slots_(core::owned_ptr<device::weight_slots<D>>::make(
              device, std::move(layout.weight_blocks), layout.forward_only, layout.backward_only)) {
    }
    [[nodiscard]] device::weight_slots<D>* get() const { return slots_.get(); }
    /// For describe().
    [[nodiscard]] std::string describe(std::size_t packed) const {
      return concat(core::grouped(packed), " bytes of packed weights in page-locked host memory, ",
                    slots_->blocks(), " blocks by turns in ", core::grouped(slots_->bytes()),
                    " bytes of the device; uploads of ", core::grouped(slots_->forward_bytes()),
                    " bytes per batch in evaluation, ",
                    core::grouped(slots_->forward_bytes() + slots_->backward_bytes()),
                    " per micro-batch in training");
    }

   private:
    core::owned_ptr<device::weight_slots<D>> slots_;
  };
};

}  // namespace detail::nn

/// Layer L, whose packed weights are on a GPU while it computes and in host memory otherwise; see
/// the header's top. Compile errors: a layer with weights outside all such blocks, and a block
/// inside another. Inside a `recompute` it is a usage_error; write `offload_weights<recompute<L>>`.
/// A batch norm belongs in the block of its convolution, whose kernel sums its statistics: across
/// blocks they are summed in another order.
template <Layer L>
struct offload_weights {
  static constexpr extent out(const extent& in) { return L::out(in); }  ///< See Layer.
  /// Adds the parameters of L, under the same names as without offload_weights.
  static constexpr void describe(const extent& in, parameter_registry& registry) {
    registry.enter_offloaded();
    L::describe(in, registry);
    registry.leave_offloaded();
  }
  /// See Layer.
  template <class B, extent In>
  [[gnu::cold]] static auto bind(layout_builder& layout) {
    expects(layout.block == nullptr,
            "offload_weights: it is within a recompute: write offload_weights<recompute<L>>");
    const std::size_t block = layout.weight_blocks.size();
    auto node = L::template bind<B, In>(layout);
    layout.weight_blocks.push_back(layout.packed_size);
    return detail::nn::offload_weights_node<B, decltype(node)>(node, block);
  }
};

namespace detail::nn {

/// L, with its weights by block or not.
template <bool Offloaded, Layer L>
using weights_of = std::conditional_t<Offloaded, offload_weights<L>, L>;

}  // namespace detail::nn

}  // namespace cordee::inline CORDEE_ABI
