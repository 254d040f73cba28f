// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a training pass allocates, before it does: layers note their parts when they are bound.
//
//   inputs        samples x (image + loss gradient)
//   activations   samples x what layers keep for backward, and batch norms' coefficients
//   gradients     buffers in use at a time x samples x the largest activation
//   workspace     the most that a layer's weight gradient takes; sums of batch norms on a CPU
#pragma once

#include <algorithm>
#include <cstddef>

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
  std::size_t activation_buffers = 0;  // without those of recomputed blocks
  std::size_t held_gradients = 0;      // beside a layer's dy and dx, where layers are being bound
  std::size_t gradient_buffers = 2;
  // The network's, once all are bound.
  std::size_t number = 0, real = 0;              // bytes
  std::size_t packed = 0, packed_on_device = 0;  // less with weights by block (offload_weights.hpp)
  bool host_memory = true;
  std::size_t input = 0, activations = 0, largest_activation = 0;  // bytes of a sample

  /// Where a block begins whose layers are bound next.
  struct mark {
    buffer_sizes before;
    std::size_t blocks, packed;
  };
  /// A block of a network ends. Blocks within it are part of it, unless they are recomputed.
  [[gnu::cold, gnu::noinline]] void end_block(const mark& begin, std::size_t bytes,
                                              std::size_t packed_size, std::size_t output,
                                              bool writes_output) {
    for (std::size_t k = begin.blocks; k < blocks.size(); ++k)
      if (blocks[k].recomputed) return;
    blocks.resize(begin.blocks);
    blocks.push_back({{bytes - begin.before.bytes, activation_buffers - begin.before.count},
                      output,
                      writes_output,
                      false,
                      packed_size - begin.packed});
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
    return input + of_activations(0, recomputed_blocks::as_they_are) +
           gradient_buffers * largest_activation;
  }
  /// Without workspace.
  [[nodiscard]] pass_memory of(
      std::size_t samples, recomputed_blocks recomputed = recomputed_blocks::as_they_are) const {
    return {samples * input, of_activations(samples, recomputed) + coefficients(samples),
            gradient_buffers * std::max(samples * largest_activation, number), 0};
  }
  /// Doubles of the scratch of batch norms on a CPU.
  [[nodiscard]] std::size_t batch_norm_scratch(int samples) const {
    std::size_t most = 0;
    for (const auto& norm : batch_norms)
      most = std::max(most, norm.problem.scratch_size(samples, norm.block));
    return most;
  }

 private:
  // 0 samples: of one, without what rounding adds.
  [[nodiscard]] std::size_t of_activations(std::size_t samples, recomputed_blocks which) const {
    std::size_t bytes = activations;
    block_stack stack;
    for (const noted_block& b : blocks) {
      const bool recomputed =
          which == recomputed_blocks::as_they_are ? b.recomputed : which == recomputed_blocks::all;
      if (b.recomputed && !recomputed) bytes += b.activations.bytes;
      if (!recomputed) continue;
      if (!b.recomputed) bytes -= b.activations.bytes;
      stack.add(b.activations, b.output, b.writes_output);
    }
    return samples == 0 ? bytes + stack.most.bytes : samples * bytes + stack.most.bytes_of(samples);
  }
  [[nodiscard]] std::size_t coefficients(std::size_t samples) const {
    std::size_t numbers = 0;
    for (const auto& norm : batch_norms)
      numbers += norm.problem.saved_size(static_cast<int>(samples), norm.block);
    return numbers * real;
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::nn
