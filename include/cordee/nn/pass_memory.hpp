// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a training pass allocates, before it does: layers note their parts when they are bound.
//
//   inputs        samples x (image + loss gradient)
//   activations   samples x what layers keep for backward, and batch norms' coefficients
//   gradients     of activations, and outputs that backward computes again, as far as the memory of
//                 activations that have been read (pass_buffers.hpp) does not hold them
//   workspace     the most that a layer's weight gradient takes, on a CPU less where it finds room
//                 in the memory of activations; sums of batch norms on a CPU
#pragma once

#include <cstddef>
#include <utility>

#include <cordee/core/min_max.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/nn/block_memory.hpp>
#include <cordee/nn/buffer_sizes.hpp>
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

/// A block that is, or could be, recomputed or offloaded.
struct noted_block {
  buffer_sizes activations;
  std::size_t output = 0;      // bytes of a sample
  bool writes_output = false;  // with recompute, where it is kept
  block_memory memory = block_memory::resident;
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

/// What an update by the host would free of the device's memory, and what it moves over the link
/// each way in a step; 0: the run has it, or cannot have it.
struct host_price {
  std::size_t freed = 0, moved = 0;
};

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
  std::size_t input = 0;            // bytes of a sample
  std::size_t separate = 0;         // of activations outside of the arena
  host_price on_host{};             // set by a run that may have it
  std::size_t freed_by_shards = 0;  // by sharded, likewise
  // sizes_of, if a block is not resident, else null: without such blocks it is not compiled.
  std::size_t (*arena_with_blocks)(const pass_layout&, std::size_t) = nullptr;

  /// With the network's numbers of a sample, and bytes.
  template <class B>
  void bind(std::size_t inputs, std::size_t packed_bytes) {
    number = sizeof(typename B::number);
    real = sizeof(typename B::real);
    host_memory = B::device::host_memory;
    input = number * inputs;
    packed = packed_on_device = packed_bytes;
  }
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
  /// The parts since `begin` are this block, whose activations are not resident.
  [[gnu::cold, gnu::noinline]] void add_block(const mark& begin, const noted_block& block) {
    append_block(begin, block);
    arena_with_blocks = [](const pass_layout& layout, std::size_t samples) {
      return layout.sizes_of(samples, nullptr).arena;
    };
  }
  /// A block of a network ends. Blocks within it are part of it, unless they are elsewhere.
  [[gnu::cold, gnu::noinline]] void end_block(const mark& begin, std::size_t packed_size,
                                              std::size_t output, bool writes_output) {
    for (std::size_t k = begin.blocks; k < blocks.size(); ++k)
      if (blocks[k].memory != block_memory::resident) return;
    blocks.resize(begin.blocks);
    append_block(begin,
                 {{}, output, writes_output, block_memory::resident, packed_size - begin.packed});
  }
  /// Whether a block has its activations there.
  [[nodiscard]] bool has(block_memory memory) const {
    for (const noted_block& b : blocks)
      if (b.memory == memory) return true;
    return false;
  }
  /// Bytes of activations that a pass copies to the host and back, each way, were all blocks
  /// offloaded.
  [[nodiscard]] std::size_t copied_bytes(std::size_t samples) const {
    block_ring ring;
    for (const noted_block& b : blocks) ring.add(b.activations);
    return ring.copied_bytes(samples);
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
    const auto of_pass = sizes_of(0, nullptr);
    return input + separate + of_pass.arena + of_pass.ring;
  }
  /// Bytes of activations and what is temporary together.
  [[nodiscard, gnu::cold, gnu::noinline]] std::size_t arena(std::size_t samples) const {
    if (arena_with_blocks != nullptr) return arena_with_blocks(*this, samples);
    // sizes_of, were all resident
    samples += samples == 0 ? 1 : 0;
    buffer_sizes before;
    std::size_t most = 0;
    for (const noted_part& p : parts) {
      most = std::max(most, before.bytes_of(samples) + buffer_sizes{p.restored}.bytes_of(samples) +
                                p.activations.count * buffer_sizes::alignment);
      before.bytes += p.activations.bytes;
      before.count += p.activations.count;
    }
    const std::size_t kept = before.bytes_of(samples);
    return most <= kept ? kept : most + gaps(samples);
  }
  /// Without workspace.
  [[nodiscard]] pass_memory of(std::size_t samples) const { return of(samples, nullptr); }
  /// Were the activations of all blocks there.
  [[nodiscard]] pass_memory of(std::size_t samples, block_memory all) const {
    return of(samples, &all);
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
    std::size_t activations, arena, ring;
  };
  // Gaps beside the first gradients and separate activations, which are small.
  [[nodiscard]] std::size_t gaps(std::size_t samples) const {
    constexpr std::size_t temporary_buffers = 8;  // more than are in use at a time
    return samples * separate + temporary_buffers * buffer_sizes::alignment;
  }
  [[gnu::cold, gnu::noinline]] void append_block(const mark& begin, const noted_block& block) {
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
  // As blocks are where `all` is null.
  [[nodiscard]] pass_memory of(std::size_t samples, const block_memory* all) const {
    const auto of_pass = sizes_of(samples, all);
    return {samples * input,
            of_pass.activations + of_pass.ring + samples * separate + coefficients(samples),
            of_pass.arena - of_pass.activations, 0};
  }
  // 0 samples: of one, without what rounding adds.
  [[nodiscard, gnu::cold, gnu::noinline]] sizes sizes_of(std::size_t samples,
                                                         const block_memory* where) const {
    const auto bytes_of = [&](const buffer_sizes& b, std::size_t further = 0) {
      return samples == 0 ? b.bytes + further
                          : b.bytes_of(samples) + buffer_sizes{further, 0}.bytes_of(samples);
    };
    const auto memory_of = [&](const noted_part& p) {
      if (p.block == noted_part::no_block) return block_memory::resident;
      return where == nullptr ? blocks[p.block].memory : *where;
    };
    buffer_sizes all;
    for (const noted_part& p : parts)
      if (memory_of(p) == block_memory::resident) {
        all.bytes += p.activations.bytes;
        all.count += p.activations.count;
      }
    std::size_t most = 0;
    buffer_sizes before;
    block_stack stack;
    block_ring ring;
    for (const noted_part& p : parts) {
      const block_memory memory = memory_of(p);
      const bool recomputed = memory == block_memory::recomputed;
      const std::size_t rounding = samples > 0 ? p.activations.count * buffer_sizes::alignment : 0;
      std::size_t end = bytes_of(before, p.restored) + rounding;
      if (stack.outputs.count > 0) end = bytes_of(all) + bytes_of(stack.most, p.gradients);
      if (recomputed) {  // an eighth: gaps between buffers of other sizes
        const noted_block& b = blocks[p.block];
        const std::size_t others = bytes_of(stack.most, p.gradients);
        stack.add(b.activations, b.output, b.writes_output);
        end = bytes_of(all) + bytes_of({p.temporaries + p.gradients / 8, 0}) +
              std::max(std::max(bytes_of(stack.most), others),
                       bytes_of(stack.outputs, p.behind) + rounding);
      }
      if (memory == block_memory::offloaded) {  // gaps likewise
        ring.add(blocks[p.block].activations);
        end = bytes_of(before, p.temporaries + p.gradients + p.gradients / 8);
        if (stack.outputs.count > 0) end += bytes_of(all) - bytes_of(before) + bytes_of(stack.most);
      }
      most = std::max(most, end);
      if (memory == block_memory::resident) {
        before.bytes += p.activations.bytes;
        before.count += p.activations.count;
      }
    }
    const std::size_t kept = bytes_of(all) + bytes_of(stack.most);
    const std::size_t on_ring = bytes_of(ring.most);
    if (most <= kept) return {kept, kept, on_ring};
    return {kept, most + (samples == 0 ? separate : gaps(samples)), on_ring};
  }
  [[nodiscard]] std::size_t coefficients(std::size_t samples) const {
    std::size_t numbers = 0;
    for (const auto& norm : batch_norms)
      numbers += norm.problem.saved_size(static_cast<int>(samples), norm.block);
    return numbers * real;
  }
};

/// A pass of a network of backend B, which has so many bytes beside what grows. `stays_packed`: it
/// may leave gradients packed.
template <class B>
[[gnu::cold]] pass_memory memory_of_pass(const pass_layout& layout, int samples,
                                         std::size_t constant, bool stays_packed) {
  pass_memory memory = layout.of(static_cast<std::size_t>(samples));
  memory.workspace = constant;
  if constexpr (B::device::host_memory)
    memory.workspace += layout.batch_norm_scratch(samples) * sizeof(double);
  std::size_t numbers = 0;  // of the largest weight gradient
  if (B::packs_gradients && stays_packed)
    memory.workspace += layout.packed;
  else
    for (const convolution_problem& p : layout.convolutions)
      numbers = std::max(numbers, typename B::engine{}.template workspace<typename B::number>(
                                      p, samples, typename B::stream{}));
  memory.workspace += numbers * sizeof(typename B::number);
  return memory;
}

}  // namespace cordee::inline CORDEE_ABI::detail::nn
