// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Where a block of layers has its activations, and the memory that such blocks share: the stack of
// recomputed ones (recompute.hpp), the ring of offloaded ones (offload_activations.hpp).
#pragma once

#include <cstddef>

#include <cordee/core/min_max.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/nn/buffer_sizes.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

/// Where a block's activations are between its forward and its backward pass.
enum class block_memory {
  resident,
  recomputed,  // nowhere (recompute.hpp)
  offloaded    // in the host's memory (offload_activations.hpp)
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

/// A block whose activations share the device's memory with others in turn.
struct ring_block {
  buffer_sizes begin, size;  // of its memory
  buffer_sizes before;       // of the blocks before it
  [[nodiscard]] constexpr buffer_sizes end() const {
    return {begin.bytes + size.bytes, begin.count + size.count};
  }
};

/// Memory of blocks, each apart from that of the two before it.
struct block_ring {
  static constexpr std::size_t resident = 3;  // consecutive blocks that are there at a time

  core::pod_vector<ring_block> blocks;
  buffer_sizes most{};

  [[gnu::cold, gnu::noinline]] void add(const buffer_sizes& size) {
    const std::size_t n = blocks.size();
    ring_block next{{}, size, {}};
    if (n > 0)
      next.before = {blocks[n - 1].before.bytes + blocks[n - 1].size.bytes,
                     blocks[n - 1].before.count + blocks[n - 1].size.count};
    bool found = is_free(next);                            // in front
    for (std::size_t k = n > 2 ? n - 2 : 0; k < n; ++k) {  // behind one of the two before it
      ring_block other = next;
      other.begin = blocks[k].end();
      if (!is_free(other) || (found && other.begin.bytes >= next.begin.bytes)) continue;
      next = other;
      found = true;
    }
    blocks.push_back(next);
    most.bytes = std::max(most.bytes, next.end().bytes);
    most.count = std::max(most.count, next.end().count);
  }
  /// Whether it is copied to the host: the last blocks stay until backward begins.
  [[nodiscard]] bool is_copied(std::size_t k) const { return k + resident < blocks.size(); }
  /// Bytes that a pass of so many samples copies each way, at most.
  [[nodiscard]] std::size_t copied_bytes(std::size_t samples) const {
    const std::size_t n = blocks.size();
    return n > resident ? blocks[n - resident].before.bytes_of(samples) : 0;
  }

 private:
  [[nodiscard]] bool is_free(const ring_block& b) const {
    const auto precedes = [](const buffer_sizes& x, const buffer_sizes& y) {
      return x.bytes <= y.bytes && x.count <= y.count;
    };
    const std::size_t n = blocks.size();
    for (std::size_t k = n > 2 ? n - 2 : 0; k < n; ++k)
      if (!precedes(b.end(), blocks[k].begin) && !precedes(blocks[k].end(), b.begin)) return false;
    return true;
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::nn
