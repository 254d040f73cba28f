// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a training pass allocates, before it does: layers note their parts when they are bound.
//
//   inputs        samples x (image + loss gradient)
//   activations   samples x what layers keep for backward, and batch norms' coefficients
//   gradients     of activations, and outputs that backward computes again, as far as the memory of
//                 activations that have been read (pass_buffers.hpp) does not hold them
//   workspace     the most that a layer's weight gradient takes; sums of batch norms on a CPU
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include <cordee/core/pod_vector.hpp>
#include <cordee/nn/pass_buffers.hpp>
#include <cordee/ops/batch_norm_problem.hpp>
#include <cordee/ops/convolution.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

/// Bytes of a training pass.
struct pass_memory {
  std::size_t inputs = 0, activations = 0, gradients = 0, workspace = 0;

  [[nodiscard]] constexpr std::size_t sum() const {
    return inputs + activations + gradients + workspace;
  }
};

/// A block that recompute takes, or could take (recompute.hpp).
struct noted_block {
  buffer_sizes activations;
  std::size_t output = 0;      // bytes of a sample
  bool writes_output = false;  // with recompute, where it is kept
  bool recomputed = false;
  std::size_t packed = 0;  // bytes of its packed weights
};

/// Layers in the order of forward, or a block: bytes of a sample.
struct noted_part {
  static constexpr std::size_t no_block = ~std::size_t{0};
  buffer_sizes activations;
  /// Gradients of the layer with the most; behind the activations that are before it and its own;
  /// and with outputs that are computed again for it.
  std::size_t gradients = 0, behind = 0, restored = 0;
  std::size_t temporaries = 0;  // outputs that a recomputed block has in backward, beside those
  std::size_t block = no_block;
};

/// The bytes and buffers of activations on the stack of recomputed blocks: the outputs of the
/// blocks before, and what one block has.
struct block_stack {
  buffer_sizes outputs{}, most{};

  /// The next block; `activations`: of its layers.
  constexpr void add(const buffer_sizes& activations, std::size_t output, bool writes_output) {
    outputs.bytes += output;
    ++outputs.count;
    const std::size_t shared = writes_output ? 1 : 0;
    most.bytes = std::max(most.bytes, outputs.bytes + activations.bytes - shared * output);
    most.count = std::max(most.count, outputs.count + activations.count - shared);
  }
};

/// Which blocks are recomputed.
enum class recomputed_blocks { as_they_are, all, none };

/// What the layers of a network note.
struct pass_layout {
  struct bound_batch_norm {
    ops::batch_norm_problem problem;
    int block;
  };
  core::pod_vector<noted_block> blocks;
  core::pod_vector<convolution_problem> convolutions;
  core::pod_vector<bound_batch_norm> batch_norms;
  core::pod_vector<noted_part> parts;
  std::size_t temporaries = 0;  // of the next part
  // The network's, once all are bound.
  std::size_t number = 0, real = 0;              // bytes
  std::size_t packed = 0, packed_on_device = 0;  // less with weights by block (offload_weights.hpp)
  bool host_memory = true;
  std::size_t input = 0;     // bytes of a sample
  std::size_t separate = 0;  // of activations outside of the arena

  /// Where a block begins whose layers are bound next.
  struct mark {
    std::size_t parts, blocks, packed;
  };
  /// The next layers.
  void add_part(const buffer_sizes& activations, std::size_t gradients, std::size_t restored = 0,
                std::size_t forgotten = 0) {
    const std::size_t behind =
        activations.bytes - std::min(forgotten, activations.bytes) + gradients;
    parts.push_back({activations, gradients, behind, behind + restored,
                     std::exchange(temporaries, 0), noted_part::no_block});
  }
  /// The parts since `begin` are this block.
  [[gnu::cold, gnu::noinline]] void add_block(const mark& begin, const noted_block& block) {
    noted_part all;
    for (std::size_t k = begin.parts; k < parts.size(); ++k) {
      const noted_part& p = parts[k];
      all.gradients = std::max(all.gradients, p.gradients);
      all.behind = std::max(all.behind, all.activations.bytes + p.behind);
      all.restored = std::max(all.restored, all.activations.bytes + p.restored);
      all.temporaries += p.temporaries;
      all.activations.bytes += p.activations.bytes;
      all.activations.count += p.activations.count;
    }
    all.block = blocks.size();
    parts.resize(begin.parts);
    parts.push_back(all);
    blocks.push_back(block);
    blocks.back().activations = all.activations;
  }
  /// A block of a network ends. Blocks within it are part of it, unless they are recomputed.
  [[gnu::cold, gnu::noinline]] void end_block(const mark& begin, std::size_t packed_size,
                                              std::size_t output, bool writes_output) {
    for (std::size_t k = begin.blocks; k < blocks.size(); ++k)
      if (blocks[k].recomputed) return;
    blocks.resize(begin.blocks);
    add_block(begin, {{}, output, writes_output, false, packed_size - begin.packed});
  }
  [[nodiscard]] bool recomputes() const {
    return std::any_of(blocks.begin(), blocks.end(),
                       [](const noted_block& b) { return b.recomputed; });
  }
  /// Bytes of two slots of the largest block, of which what is in no block is one.
  [[nodiscard]] std::size_t weight_slots() const {
    std::size_t largest = 0, rest = packed;
    for (const noted_block& b : blocks) largest = std::max(largest, b.packed), rest -= b.packed;
    constexpr std::size_t unit = buffer_sizes::alignment;
    return 2 * ((std::max(largest, rest) + unit - 1) / unit * unit);
  }
  /// Bytes of one sample, at least.
  [[nodiscard]] std::size_t of_sample() const {
    return input + separate + sizes_of(0, recomputed_blocks::as_they_are).arena;
  }
  /// Bytes of activations and what is temporary together.
  [[nodiscard]] std::size_t arena(std::size_t samples) const {
    return sizes_of(samples, recomputed_blocks::as_they_are).arena;
  }
  /// Without workspace.
  [[nodiscard]] pass_memory of(
      std::size_t samples, recomputed_blocks recomputed = recomputed_blocks::as_they_are) const {
    const auto of_pass = sizes_of(samples, recomputed);
    return {samples * input, of_pass.activations + samples * separate + coefficients(samples),
            of_pass.arena - of_pass.activations, 0};
  }
  /// Doubles of the scratch of batch norms on a CPU.
  [[nodiscard]] std::size_t batch_norm_scratch(int samples) const {
    std::size_t most = 0;
    for (const auto& norm : batch_norms)
      most = std::max(most, norm.problem.scratch_size(samples, norm.block));
    return most;
  }

 private:
  struct sizes {
    std::size_t activations, arena;
  };
  // 0 samples: of one, without what rounding adds.
  [[nodiscard, gnu::cold, gnu::noinline]] sizes sizes_of(std::size_t samples,
                                                         recomputed_blocks which) const {
    constexpr std::size_t temporary_buffers = 8;  // more than are in use at a time
    const auto bytes_of = [&](const buffer_sizes& b, std::size_t further = 0) {
      return samples == 0 ? b.bytes + further
                          : b.bytes_of(samples) + buffer_sizes{further, 0}.bytes_of(samples);
    };
    const auto is_recomputed = [&](const noted_part& p) {
      if (p.block == noted_part::no_block) return false;
      return which == recomputed_blocks::as_they_are ? blocks[p.block].recomputed
                                                     : which == recomputed_blocks::all;
    };
    buffer_sizes all;
    for (const noted_part& p : parts)
      if (!is_recomputed(p)) {
        all.bytes += p.activations.bytes;
        all.count += p.activations.count;
      }
    std::size_t most = 0;
    buffer_sizes before;
    block_stack stack;
    for (const noted_part& p : parts) {
      const bool recomputed = is_recomputed(p);
      const std::size_t rounding = samples > 0 ? p.activations.count * buffer_sizes::alignment : 0;
      std::size_t end = bytes_of(before, p.restored) + rounding;
      if (stack.outputs.count > 0) end = bytes_of(all) + bytes_of(stack.most, p.gradients);
      if (recomputed) {  // an eighth: gaps between buffers of other sizes
        const noted_block& b = blocks[p.block];
        const std::size_t others = bytes_of(stack.most, p.gradients);
        stack.add(b.activations, b.output, b.writes_output);
        end =
            bytes_of(all) + bytes_of({p.temporaries + p.gradients / 8, 0}) +
            std::max({bytes_of(stack.most), others, bytes_of(stack.outputs, p.behind) + rounding});
      }
      most = std::max(most, end);
      if (!recomputed) {
        before.bytes += p.activations.bytes;
        before.count += p.activations.count;
      }
    }
    const std::size_t kept = bytes_of(all) + bytes_of(stack.most);
    if (most <= kept) return {kept, kept};
    // The first gradients, of separate activations, are small and leave gaps.
    const std::size_t gaps =
        samples == 0 ? separate : samples * separate + temporary_buffers * buffer_sizes::alignment;
    return {kept, most + gaps};
  }
  [[nodiscard]] std::size_t coefficients(std::size_t samples) const {
    std::size_t numbers = 0;
    for (const auto& norm : batch_norms)
      numbers += norm.problem.saved_size(static_cast<int>(samples), norm.block);
    return numbers * real;
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::nn
