// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A layer is a type that maps extent to extent, describes its parameters, and binds to a backend
// and an input extent. A bound layer is a node.
//
//   struct my_layer {                         // a type, not an object; all members are static
//     member                          type    meaning
//     out(in)                         extent  of its output
//     describe(in, registry)          void    adds its parameters, in forward order
//     bind<B, in>(layout_builder&)    a node  of backend B at an input of extent `in`
//   };
//   struct my_node {
//     member                               type           meaning
//     pack_parameters(pass) const          void           masters to the form that kernels read
//     forward(pass, x)                     const number*  y, in memory of the pass
//     backward(pass, dy, target, ready)    number*        dx, where `target` puts it; or null
//
//     optional member                      default           meaning
//     forward(pass, x, next)               forward(pass, x)  also computes what `next`, which alone
//                                                            reads y, would compute first of it
//     statistics_of(pass)                  none              for such a forward of a convolution:
//                                                            where y's statistics go
//     input_target(pass)                   none              for such a forward of a batch norm:
//                                                            where y's bytes go
//     read_normalized(pass, input)         none              the same: what y would be made of
//     gradient_operands(pass)              none              for the node behind: where dy goes
//     backward(pass, dy, target, ready, previous)
//                                          without previous  by previous's gradient_operands
//     keeps_order                          false             of a node of others: whether these
//                                                            write activations in the order in
//                                                            which they were bound, and read them
//                                                            in reverse; then their memory is
//                                                            used again in between
//     skips_frozen_gradients               false             whether backward writes no gradient of
//                                                            a frozen segment (gradient_at is
//                                                            null): where all layers say so, there
//                                                            is no memory for those at both ends
//   };
//
// bind calls note_activation_size with the sizes of buffers besides its input and output, and
// static_asserts what it requires of `in`. It runs once per network, so long ones are
// [[gnu::cold]]: less code, less compile time. backward consumes dy, a buffer of the pass. It calls
// ready(segment) in descending order, when each gradient is done and, for a weight, the layer's
// input gradient too; before that, for kfac, it calls ready.observe(segment, samples), if
// is_observed<Ready> (sample_gradients.hpp).
// Examples: relu.hpp, and examples/own_block.cpp for a block of layers.
//
// The type of a node depends neither on its position in the network nor on extents, which are
// constructor arguments, so each kind of layer is compiled once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <cordee/core/extent.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/arena.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/nn/backend.hpp>
#include <cordee/nn/gradient_buffers.hpp>
#include <cordee/nn/layout_builder.hpp>
#include <cordee/nn/parameter_table.hpp>
#include <cordee/nn/pass_buffers.hpp>
#include <cordee/ops/batch_norm_problem.hpp>
#include <cordee/ops/cpu/elementwise.hpp>
#include <cordee/ops/dropout.hpp>

namespace cordee::inline CORDEE_ABI {

/// Arguments of pack_parameters: master weights in `plane` are converted to `packed`, for kernels.
template <class B>
struct pack_pass {
  const typename B::real* plane;     ///< The master weights.
  std::byte* packed;                 ///< (packed_size), written by the layers.
  const typename B::device& device;  ///< Makes copies on `s`.
  typename B::stream s;              ///< The stream of all copies and kernels.

  /// Returns the memory at an offset of reserve_packed, as numbers of T.
  template <class T>
  [[nodiscard]] T* packed_at(std::size_t offset) const {
    return reinterpret_cast<T*>(packed + offset);
  }
};

/// Arguments of one forward pass, shared by its layers.
template <class B>
struct forward_pass {
  const std::byte* packed;  ///< Written by pack_parameters.
  typename B::real* plane;  ///< The plane that has the running statistics.
  int samples;              ///< Size of the batch; may be 0.
  cordee::phase phase;      ///< In training, running statistics are updated.
  detail::ops::statistics_allreduce batch_norm_allreduce;  ///< Empty unless ranks share statistics.
  detail::nn::activations<typename B::device>* saved;      ///< Memory for activations, by index.
  buffer<double, typename B::device>* scratch;             ///< Sums of batch norms on a CPU; grows.
  typename B::stream s;                                    ///< The stream of all kernels.
  /// Whether batch norms normalize by running statistics, and whether these are moving averages.
  bool frozen_statistics = false, moving_average = true;
  /// Ranges of layers' inputs in a quantized precision, otherwise null.
  detail::nn::quantization_of<typename B::precision, typename B::device>* quantization = nullptr;
  const std::uint8_t* frozen = nullptr;    ///< (trainable segments): flags; null: none is set.
  detail::ops::dropout_numbers dropout{};  ///< The rate is 0 in evaluation.
  /// Whether activations are recomputed: statistics remain those of the pass's first run.
  bool recomputes = false;
  /// Where blocks of offloaded weights are uploaded; null if there are none.
  detail::device::weight_slots<typename B::device>* slots = nullptr;
  /// Where blocks of offloaded activations are; null if there are none.
  detail::nn::activation_offload<typename B::device>* offload = nullptr;

  /// Whether passes leave this trainable segment unchanged.
  [[nodiscard]] bool is_frozen(std::size_t segment) const {
    return frozen != nullptr && frozen[segment] != 0;
  }
  /// Returns the parameters at an offset of reserve_packed, as numbers of T.
  template <class T>
  [[nodiscard]] const T* packed_at(std::size_t offset) const {
    return reinterpret_cast<const T*>(packed + offset);
  }
  /// Memory for activation `index`, with `numbers` numbers per sample.
  [[nodiscard]] typename B::number* buffer_for(std::size_t index, std::size_t numbers) const {
    return saved->template buffer_for<typename B::number>(
        index, static_cast<std::size_t>(samples) * numbers);
  }
};

/// Where a layer writes its input gradient: it is added to `accumulate_into`; if that is null,
/// written to a buffer of the layer's choice; at the network's input, where it is not needed, not
/// written.
template <class Number>
struct gradient_target {
  Number* accumulate_into = nullptr;  ///< Null: the layer chooses.
  bool needed = true;                 ///< False: dx is not read.
};

/// Arguments of one backward pass, shared by its layers.
template <class B>
struct backward_pass {
  const std::byte* packed;  ///< As in the forward pass.
  /// Gradients of the parameters; see skips_frozen_gradients.
  typename B::real* plane;
  write_mode mode;  ///< Whether gradients are overwritten or added to.
  int samples;      ///< Batch size of the forward pass.
  detail::ops::statistics_allreduce batch_norm_allreduce;  ///< As in the forward pass.
  /// Pool of buffers; dy is one of them.
  detail::nn::gradient_buffers<typename B::number, typename B::device>* gradients;
  buffer<double, typename B::device>* scratch;  ///< Sums of batch norms on a CPU; grows.
  /// Memory for weight gradients; grows.
  buffer<typename B::number, typename B::device>* workspace;
  typename B::stream s;  ///< The stream of all kernels.
  /// Where convolutions leave packed gradients; null: nowhere.
  std::byte* packed_gradients = nullptr;
  const std::uint8_t* frozen = nullptr;  ///< (trainable segments): flags; null: none is set.
  /// Whether only frozen segments remain in the pass; null: others do.
  const bool* complete = nullptr;
  /// As in the forward pass.
  detail::device::weight_slots<typename B::device>* slots = nullptr;
  /// Where gradients without a plane are; null: in `plane`.
  const detail::device::gradient_places<typename B::real>* places = nullptr;
  /// As in the forward pass; null: gradients do not share memory with activations.
  detail::nn::activations<typename B::device>* saved = nullptr;
  /// As in the forward pass.
  detail::nn::activation_offload<typename B::device>* offload = nullptr;

  /// Whether the gradient of this trainable segment is not computed.
  [[nodiscard]] bool is_frozen(std::size_t segment) const {
    return frozen != nullptr && frozen[segment] != 0;
  }
  /// The gradient of a segment, at `offset` of the plane; null if it is frozen.
  [[nodiscard]] typename B::real* gradient_at(std::size_t segment, std::size_t offset) const {
    if (is_frozen(segment)) return nullptr;
    if constexpr (!B::device::host_memory)
      if (places != nullptr) return places->of(segment);
    return plane + offset;
  }
  /// Whether sequences may end here, since only frozen layers would read what they return.
  [[nodiscard]] bool is_complete() const { return complete != nullptr && *complete; }
  /// Returns the parameters at an offset of reserve_packed, as numbers of T.
  template <class T>
  [[nodiscard]] const T* packed_at(std::size_t offset) const {
    return reinterpret_cast<const T*>(packed + offset);
  }
  /// For layers that compute the input gradient in a buffer of the pass: moves that gradient, of
  /// extent `in`, to its target; returns the buffer that then holds it, or null.
  [[nodiscard]] typename B::number* route_input_gradient(
      const extent& in, typename B::number* dx, gradient_target<typename B::number> target) const {
    if (target.needed && target.accumulate_into == nullptr) return dx;
    // for a GPU by argument-dependent lookup: ops/gpu/elementwise.hpp
    if (target.needed)
      add(static_cast<std::size_t>(samples) * B::numbers(in), dx, target.accumulate_into, s);
    gradients->release(dx);
    return target.accumulate_into;
  }
};

namespace detail::nn {

/// A node whose forward pass can also compute what `Next` would compute first of its output: the
/// statistics of a batch norm, the bytes of a quantized convolution.
template <class Node, class Next, class B, class N>
concept ComputesFor = requires(Node& node, const forward_pass<B>& pass, const N* x, Next& next) {
  node.forward(pass, x, next);
};
/// The forward pass of a node whose output `next`, if there is one, alone reads.
template <class Node, class B, class N>
const N* forward_before(Node& node, const forward_pass<B>& pass, const N* x) {
  return node.forward(pass, x);
}
template <class Node, class B, class N, class Next>
const N* forward_before(Node& node, const forward_pass<B>& pass, const N* x, Next& next) {
  if constexpr (ComputesFor<Node, Next, B, N>)
    return node.forward(pass, x, next);
  else
    return node.forward(pass, x);
}

/// A node that need not keep its output; see restores_output.
template <class Node, class B>
concept RestoresOutput =
    requires(Node& node, const backward_pass<B>& pass) { node.restore_output(pass); };

/// A node whose input the node before it may quantize.
template <class Node, class B>
concept QuantizesInput =
    requires(Node& node, const forward_pass<B>& pass) { node.input_target(pass); };
/// A node of whose gradients the node behind it may write the operands.
template <class Node, class B>
concept HasGradientOperands =
    requires(Node& node, const backward_pass<B>& pass) { node.gradient_operands(pass); };

/// A layer whose output, if one other layer alone reads it, need not be kept: the node has
/// restore_output(backward_pass), which computes it again from what is kept.
template <class L>
inline constexpr bool restores_output = false;
/// A layer whose backward does not read its input, or gets it anew by restore_input(x).
template <class L>
inline constexpr bool forgets_input = false;
/// A layer whose output backward does not read, and which its node writes where write_to(y) says.
template <class L>
inline constexpr bool writes_given_output = false;

/// A layer whose backward does not read its output, the last activation that it has; but in int8.
template <class L>
inline constexpr bool forgets_output = false;
/// The node of such a layer.
template <class Node>
concept ForgetsOutput = requires { requires Node::forgets_output; };
/// A node of others that write activations in the order in which they were bound, and read them in
/// the reverse order in backward.
template <class Node>
concept KeepsOrder = requires { requires Node::keeps_order; };
/// A node's pass begins, behind the activations `before`, where temporary memory begins: in forward
/// those of the node and of the next, in backward those of the node. Within a node that does not
/// keep the order it stays there, until end_node.
template <class D>
[[gnu::noinline]] void begin_node(activations<D>* saved, const buffer_sizes& before,
                                  bool keeps_order) {
  if (saved != nullptr) saved->set_floor(before, !keeps_order);
}
template <class D>
void end_node(activations<D>* saved, bool keeps_order) {
  if (!keeps_order && saved != nullptr) saved->release_floor();
}

/// A node that may take what the gradients of the batch norm before a max pool need, from its input
/// gradient: the norm's input at the maxima.
template <class Node, class B>
concept ReadsMaxima =
    requires(Node& node, const forward_pass<B>& pass,
             const ops::normalized_input<typename B::number, typename B::real>& maxima) {
      node.read_maxima(pass, maxima);
    };
/// The layer that reads the input of L first, where it alone does.
template <class L>
struct first_layer {
  using type = L;
};
/// The images of a network, as its first layer reads them.
template <class Root, class B, extent Input>
struct image_layout {
  using number = typename B::number;

  /// convolution_problem::margin of that layer.
  static constexpr int margin = [] {
    using first = typename first_layer<Root>::type;
    if constexpr (B::device::host_memory)
      return 0;
    else if constexpr (requires {
                         B::engine::template image_margin<number>(first::problem(Input));
                       })
      return B::engine::template image_margin<number>(first::problem(Input));
    else
      return 0;
  }();
  /// Numbers of one.
  static constexpr std::size_t numbers =
      B::numbers({Input.channels, Input.height, Input.width + margin});

  /// The layout, whose first convolution gets the margin.
  static layout_builder& begin(layout_builder& layout) {
    layout.image_margin = margin;
    return layout;
  }
  static void normalize(const batch<typename B::device>& b, number* x, typename B::stream s) {
    // for a GPU by argument-dependent lookup: ops/gpu/{elementwise,paired_columns}.hpp
    if constexpr (margin > 0)
      normalize_bytes_by_pairs(Input, b.count, b.pixels.data, b.normalization, x, s);
    else
      normalize_bytes<number, B::block(Input.channels)>(Input, b.count, b.pixels.data,
                                                        b.normalization, x, s);
  }
};

/// A node whose backward writes no gradient of a frozen segment.
template <class Node>
concept SkipsFrozenGradients = requires { requires Node::skips_frozen_gradients; };

/// The backward pass of a node behind `previous`.
template <class Node, class B, class N, class Ready, class Previous>
N* backward_behind(Node& node, const backward_pass<B>& pass, N* dy, gradient_target<N> target,
                   Ready& ready, Previous& previous) {
  if constexpr (requires { node.backward(pass, dy, target, ready, previous); })
    return node.backward(pass, dy, target, ready, previous);
  else
    return node.backward(pass, dy, target, ready);
}

}  // namespace detail::nn

/// Type of a layer. It also has `bind`, which depends on a backend, so no concept can require it;
/// see the header's top.
template <class L>
concept Layer = requires(const extent& in, parameter_registry& registry) {
  { L::out(in) } -> std::same_as<extent>;
  { L::describe(in, registry) };
};

namespace detail::nn {

/// The node of layer L.
template <class L, class B, extent In>
using node_of = decltype(L::template bind<B, In>(std::declval<layout_builder&>()));

}  // namespace detail::nn

}  // namespace cordee::inline CORDEE_ABI
