// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Activations in page-locked host memory: after a block's forward pass, what it keeps for backward
// is copied there on a separate stream, and copied back, block by block in reverse order, while
// backward computes the blocks after it.
//
//   forward    0   1   2   3   4        the device has the blocks k, k - 1 and k - 2
//   downloads      0   1
//   backward           4   3   2   1   0
//   uploads                1   0        block k - 2 while block k computes; the last three stayed
//
// A block's memory is reused when its copy has ended, for which the stream of the passes waits.
// Kernels, their order and addresses are those without offloading, so the bits are the same. The
// price is to copy the activations of all but the last three blocks over the host link, each way.
// On the CPU, whose activations are in host memory, nothing is copied.
//
//   using block = offload_activations<residual<body, batch_norm<>>>;   // of a network of one's own
//   resnet<50, fp16, gpu, resnet_options{.offload_activations = true}> net;  // stem, each block
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/owned_ptr.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/pinned.hpp>
#include <cordee/nn/layer.hpp>
#include <cordee/nn/recompute.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail::nn {

/// The activations of blocks, on the device and in the host's memory. Passes of one host thread.
template <class D>
class activation_offload {
  static_assert(device::PinnedAllocator<D>,
                "offload_activations: this device has no page-locked host memory (pin, unpin)");
  using stream = typename D::stream;

 public:
  [[gnu::cold]] activation_offload(const D& device, block_ring&& ring)
      : device_(device),
        copies_(device.make_stream()),
        ring_(std::move(ring)),
        memory_(device, 0),
        host_(device, 0),
        blocks_(ring_.blocks.size()) {}
  activation_offload(const activation_offload&) = delete;
  activation_offload& operator=(const activation_offload&) = delete;
  ~activation_offload() {
    device_.finish(copies_);
    if constexpr (requires { device_.close_stream(copies_); }) device_.close_stream(copies_);
  }

  /// A forward pass of so many samples; in training its activations are copied.
  void begin_forward(std::size_t samples, bool trains, stream s) {
    end(s);  // of a pass without backward
    samples_ = samples;
    trains_ = trains;
    const std::size_t size = ring_.most.bytes_of(samples),
                      copied = trains ? ring_.copied_bytes(samples) : 0;
    if (size <= memory_.size() && copied <= host_.span().size()) return;
    device_.finish(s);  // which has waited for the copies
    memory_.reserve(size);
    host_.reserve(copied);
  }
  /// Block k's layers get memory from `saved` now.
  void enter_forward(std::size_t k, activations<D>& saved, stream s) {
    if (trains_ && k >= resident) device_.await(s, blocks_[k - resident].copied);
    const ring_block& b = ring_.blocks[k];
    saved.begin_region(memory_of(k), b.size.bytes_of(samples_));
  }
  /// They have got so many bytes.
  void leave_forward(std::size_t k, std::size_t bytes, stream s) {
    if (!trains_ || !ring_.is_copied(k)) return;
    device_.await(copies_, device_.record(s));
    device_.copy(host_of(k), memory_of(k), bytes, copies_);
    mark(k, bytes);
  }
  /// Work of `s` from now on reads block k, and the output of the one before.
  void enter_backward(std::size_t k, stream s) {
    for (const std::size_t read : {k, k - 1})  // none before the first
      if (read <= k && ring_.is_copied(read)) device_.await(s, blocks_[read].copied);
    if (k < 2 || !ring_.is_copied(k - 2)) return;
    const std::size_t next = k - 2;
    device_.await(copies_, device_.record(s));  // later blocks, whose memory it may get, are done
    device_.copy(memory_of(next), host_of(next), blocks_[next].bytes, copies_);
    mark(next, blocks_[next].bytes);
  }
  void end_backward(stream s) {
    end(s);
    trains_ = false;
  }
  /// Frees the memory.
  [[gnu::cold]] void release() {
    device_.finish(copies_);
    memory_ = {device_, 0};
    host_ = device::pinned<std::byte, D>(device_, 0);
  }

  [[nodiscard]] std::size_t bytes() const { return memory_.size(); }
  /// For describe().
  [[nodiscard]] std::string describe() const {
    const auto sample = [&](std::size_t bytes) { return core::grouped(bytes); };
    return concat("activations of ", ring_.blocks.size(), " blocks by turns in ",
                  sample(ring_.most.bytes), " bytes per sample of the device; ",
                  sample(ring_.copied_bytes(1)),
                  " per sample in page-locked host memory, over the host link once each way");
  }

 private:
  static constexpr std::size_t resident = block_ring::resident;
  struct block_state {
    std::size_t bytes = 0;
    typename D::event copied{};  // behind the last copy, either way
  };

  [[nodiscard]] std::byte* memory_of(std::size_t k) {
    return memory_.span().data + ring_.blocks[k].begin.bytes_of(samples_);
  }
  [[nodiscard]] std::byte* host_of(std::size_t k) {
    return host_.span().data() + ring_.blocks[k].before.bytes_of(samples_);
  }
  void mark(std::size_t k, std::size_t bytes) {
    blocks_[k] = {bytes, device_.record(copies_)};
    last_ = k;
    is_joined_ = false;
  }
  // Work of `s` from now on is behind all copies.
  void end(stream s) {
    if (!std::exchange(is_joined_, true)) device_.await(s, blocks_[last_].copied);
  }

  D device_;
  stream copies_;
  block_ring ring_;
  buffer<std::byte, D> memory_;
  device::pinned<std::byte, D> host_;
  std::vector<block_state> blocks_;
  std::size_t samples_ = 0, last_ = 0;
  bool trains_ = false, is_joined_ = true;
};

template <class D>
struct activation_memory<D, true> {
  class type {
   public:
    type(const D& device, layout_builder& layout)
        : offload_(core::owned_ptr<activation_offload<D>>::make(device, std::move(layout.ring))) {}
    template <class Pass>
    void begin_forward(Pass& pass, std::size_t samples, typename D::stream s) const {
      pass.offload = offload_.get();
      pass.offload->begin_forward(samples, pass.phase == phase::train, s);
    }
    template <class Pass>
    void begin_backward(Pass& pass) const {
      pass.offload = offload_.get();
    }
    void end_backward(typename D::stream s) const { offload_->end_backward(s); }
    [[nodiscard]] std::string describe() const { return offload_->describe(); }
    [[nodiscard]] std::size_t bytes() const { return offload_->bytes(); }
    void release() { offload_->release(); }

   private:
    core::owned_ptr<activation_offload<D>> offload_;
  };
};

/// The node on a GPU; on the CPU a block is its layer.
template <class B, class Node>
class offload_activations_node {
  using number = typename B::number;

 public:
  static constexpr bool skips_frozen_gradients = SkipsFrozenGradients<Node>;
  offload_activations_node(const Node& node, std::size_t block) : node_(node), block_(block) {}

  void pack_parameters(const pack_pass<B>& pass) const { node_.pack_parameters(pass); }

  template <class... Next>
  const number* forward(const forward_pass<B>& pass, const number* x, Next&... next) {
    pass.offload->enter_forward(block_, *pass.saved, pass.s);
    const number* const y = forward_before(node_, pass, x, next...);
    pass.offload->leave_forward(block_, pass.saved->end_region(), pass.s);
    return y;
  }
  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, gradient_target<number> target,
                   Ready& ready) {
    pass.offload->enter_backward(block_, pass.s);
    return node_.backward(pass, dy, target, ready);
  }

 private:
  Node node_;
  std::size_t block_;
};

}  // namespace detail::nn

/// Layer L, whose activations are kept in page-locked host memory between its forward and backward
/// pass on a GPU; see the header's top. Within another such block or a recompute, or around one, it
/// is a usage_error; in int8 a compile error. A batch norm belongs in the block of its convolution,
/// whose kernel sums its statistics.
template <Layer L>
struct offload_activations {
  static constexpr extent out(const extent& in) { return L::out(in); }  ///< See Layer.
  /// Adds the parameters of L, under the same names as without offload_activations.
  static constexpr void describe(const extent& in, parameter_registry& registry) {
    registry.add_activation_block();
    L::describe(in, registry);
  }
  /// See Layer.
  template <class B, extent In>
  [[gnu::cold]] static auto bind(layout_builder& layout) {
    static_assert(!Quantized<typename B::precision>,
                  "offload_activations: bytes of layers' inputs are not moved: use fp32, bf16 or "
                  "fp16");
    expects(layout.block == nullptr,
            "offload_activations: it is within a recompute or another offload_activations: put "
            "one beside the other");
    if constexpr (B::device::host_memory) {
      return L::template bind<B, In>(layout);
    } else {
      using number = typename B::number;
      const auto begin = layout.begin_block();
      const auto noted = std::exchange(layout.noted, {});
      detail::nn::buffer_sizes activations;
      layout.block = &activations;
      auto node = L::template bind<B, In>(layout);
      constexpr bool writes_output = requires { node.write_block_output(); };
      constexpr std::size_t output = sizeof(number) * B::numbers(out(In));
      layout.note_gradients(begin.parts, output + sizeof(number) * B::numbers(In));
      layout.block = nullptr;
      layout.noted = noted;
      layout.pass.add_block(
          begin, {activations, output, writes_output, detail::nn::block_memory::offloaded,
                  layout.packed_size - begin.packed});
      const std::size_t index = layout.ring.blocks.size();
      layout.ring.add(activations);
      return detail::nn::offload_activations_node<B, decltype(node)>(node, index);
    }
  }
};

namespace detail::nn {

/// L, with its activations in the host's memory or not.
template <bool Offloaded, Layer L>
using activations_of = std::conditional_t<Offloaded, offload_activations<L>, L>;

/// L, with its activations where the options S of a residual network say.
template <auto S, Layer L>
struct stored_block {
  static_assert(!S.recompute || !S.offload_activations,
                "activations are recomputed or offloaded: omit .recompute or .offload_activations");
  using type = activations_of<S.offload_activations, block_of<S.recompute, L>>;
};
template <auto S, Layer L>
using stored = typename stored_block<S, L>::type;

}  // namespace detail::nn

}  // namespace cordee::inline CORDEE_ABI
