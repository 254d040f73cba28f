// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the layers of a network record when bound: where their parameters are in the table and in
// packed memory, their activations and gradients, and the blocks they form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <cordee/core/min_max.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/nn/buffer_sizes.hpp>
#include <cordee/nn/pass_memory.hpp>
#include <cordee/ops/batch_norm_problem.hpp>
#include <cordee/ops/packed_table.hpp>

namespace cordee::inline CORDEE_ABI {

/// Assigns segments, packed memory and activations to the layers of a network, in forward order.
struct layout_builder {
  std::span<const segment> table;    ///< Trainable segments first, then statistics.
  std::size_t next_segment = 0;      ///< Index of the next trainable segment.
  std::size_t next_statistic = 0;    ///< Index of the next running statistic.
  std::size_t packed_size = 0;       ///< Bytes of the packed parameters.
  std::size_t activations = 0;       ///< Number of activation buffers, excluding recomputed ones.
  detail::nn::buffer_sizes kept{};   ///< Buffers that grow with samples, in forward order.
  detail::nn::buffer_sizes noted{};  ///< Buffers that `pass` includes.
  /// Bytes per sample of gradients held by the layers that enclose those being bound.
  std::size_t held_gradients = 0;
  /// Activations of the recomputed block whose layers are being bound (recompute.hpp); otherwise
  /// null.
  detail::nn::buffer_sizes* block = nullptr;
  detail::nn::pass_layout pass{};        ///< What a pass allocates.
  detail::nn::block_stack recomputed{};  ///< Memory of recomputed blocks.
  detail::nn::block_ring ring{};         ///< Memory of blocks with offloaded activations.
  std::size_t largest_activation = 0;    ///< Most numbers per sample between two layers.
  std::size_t quantized_layers = 0;      ///< Number of layers with an input range.
  std::uint32_t dropouts = 0;            ///< Number of dropout layers.
  /// Ends of the blocks of packed parameters that share GPU memory in turn
  /// (nn/offload_weights.hpp).
  detail::core::pod_vector<std::size_t> weight_blocks{};
  /// Ranges of the packed parameters that only forward, or only backward, reads: begin, end, …
  detail::core::pod_vector<std::size_t> forward_only{}, backward_only{};
  bool has_ghost_batches = false;  ///< Whether a batch norm has ghost batches.
  detail::core::pod_vector<segment> one_pixel_scales{};  ///< Scales of batch norms with one pixel.
  /// The packed form of each parameter tensor, for engines that pack by table.
  detail::core::pod_vector<detail::ops::packed_tensor> tensors{};
  /// Where the buffers in `kept` are.
  detail::core::pod_vector<detail::nn::planned_buffer> planned{};
  /// convolution_problem::margin of the next convolution, the first of a network.
  int image_margin = 0;
  /// The index of the next layer's output, for add_output.
  std::size_t output_index = detail::nn::own_activation;

  /// Reserves `numbers` numbers of type T in the packed parameters; returns the byte offset.
  template <class T>
  std::size_t reserve_packed(std::size_t numbers) {
    const std::size_t offset = packed_size;
    packed_size += detail::core::align_up(numbers) * sizeof(T);
    return offset;
  }
  /// Notes packed bytes that only forward, or only backward, reads. A recomputed block's forward
  /// pass is part of backward.
  [[gnu::cold, gnu::noinline]] void split_packed(std::size_t forward, std::size_t forward_end,
                                                 std::size_t backward, std::size_t backward_end) {
    backward_only.push_back(backward);
    backward_only.push_back(backward_end);
    if (block != nullptr) return;
    forward_only.push_back(forward);
    forward_only.push_back(forward_end);
  }
  /// Adds the next parameter tensor; packed forms are listed in the table's order.
  void add_packed(const detail::ops::packed_tensor& t) {
    tensors.push_back(tensors.empty() ? t : tensors.back().followed_by(t));
  }
  /// Adds an activation buffer of so many bytes per sample and returns its index. Those of a
  /// recomputed block last until the next block's pass.
  [[gnu::cold, gnu::noinline]] std::size_t add_activation(std::size_t bytes) {
    if (block != nullptr) {
      block->bytes += bytes;
      ++block->count;
      return detail::nn::recomputed_activation;
    }
    planned.push_back({activations, bytes, kept});
    kept.bytes += bytes;
    ++kept.count;
    return activations++;
  }
  /// Same, for a layer that ends a network: its activations last, since users read network::logits.
  [[gnu::cold, gnu::noinline]] std::size_t add_last_activation(std::size_t bytes) {
    if (block != nullptr) return add_activation(bytes);
    pass.separate += bytes;
    return activations++;
  }
  /// As add_activation, for a layer's output, whose index a neighboring layer may have set.
  [[gnu::cold, gnu::noinline]] std::size_t add_output(std::size_t bytes) {
    const std::size_t set = std::exchange(output_index, detail::nn::own_activation);
    if (set == detail::nn::temporary_activation) pass.temporaries += bytes;
    return set == detail::nn::own_activation ? add_activation(bytes) : set;
  }
  /// The activations so far; within a recomputed block, that block's.
  [[nodiscard, gnu::cold, gnu::noinline]] const detail::nn::buffer_sizes& position() const {
    return block != nullptr ? *block : kept;
  }
  /// Index of a new buffer that does not grow with samples and lasts until backward.
  std::size_t add_kept() { return activations++; }
  /// Records the numbers per sample in a layer's input or output, for largest_activation.
  void note_activation_size(std::size_t numbers) {
    largest_activation = std::max(largest_activation, numbers);
  }
  /// Notes that the layer bound last, before which `pass` had so many parts, uses `bytes` per
  /// sample for gradients in backward, and `restored` for its input if that is recomputed, and does
  /// not read `forgotten` of its activations. Layers within it may have noted the same.
  [[gnu::cold, gnu::noinline]] void note_gradients(std::size_t parts, std::size_t bytes,
                                                   std::size_t restored = 0,
                                                   std::size_t forgotten = 0) {
    const auto& now = position();
    if (pass.parts.size() != parts && now.count == noted.count) return;
    pass.add_part({now.bytes - noted.bytes, now.count - noted.count}, held_gradients + bytes,
                  restored, forgotten);
    noted = now;
  }
  /// What a pass allocates, once all layers are bound; `bytes` as in note_gradients.
  [[nodiscard, gnu::cold, gnu::noinline]] detail::nn::pass_layout take_pass(std::size_t bytes) {
    note_gradients(pass.parts.size(), bytes);
    return std::move(pass);
  }
  /// Begins a block that `recompute` could wrap, of the layers bound next; see end_block.
  [[nodiscard, gnu::cold, gnu::noinline]] detail::nn::pass_layout::mark begin_block() const {
    return {pass.parts.size(), pass.blocks.size(), packed_size};
  }
  /// Ends the block. Its output has so many bytes per sample, which its last layer writes to kept
  /// memory if the block is recomputed (`writes_output`).
  [[gnu::cold, gnu::noinline]] void end_block(const detail::nn::pass_layout::mark& begin,
                                              std::size_t output, bool writes_output) {
    if (block == nullptr) pass.end_block(begin, packed_size, output, writes_output);
  }
  /// Notes a batch norm of the next segments, with channels in blocks of the given size, and
  /// advances past them.
  [[gnu::cold, gnu::noinline]] void add_batch_norm(const detail::ops::batch_norm_problem& problem,
                                                   int channel_block) {
    pass.batch_norms.push_back({problem, channel_block});
    has_ghost_batches |= problem.ghost_batch > 0;
    if (problem.in.pixels() == 1) one_pixel_scales.push_back(table[next_segment]);
    next_segment += 2;
    next_statistic += 2;
  }
};

}  // namespace cordee::inline CORDEE_ABI
