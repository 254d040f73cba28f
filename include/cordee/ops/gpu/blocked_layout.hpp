// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Indexing of activations (N, ceil(C / V), H, W, V) with V known at run time: a GPU kernel is
// compiled once for all layouts (ops/layout.hpp).
#pragma once

#include <cstddef>

#include <cordee/core/extent.hpp>
#include <cordee/ops/fast_divisor.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

struct blocked_layout {
  std::size_t channels, pixels, V, blocks;

  constexpr blocked_layout(const extent& e, int block)
      : channels(static_cast<std::size_t>(e.channels)),
        pixels(e.pixels()),
        V(static_cast<std::size_t>(block)),
        blocks(channel_blocks(e.channels, block)) {}

  /// Channels including the padding of the last block.
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t lanes() const { return blocks * V; }
  /// Numbers per sample.
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t size() const { return lanes() * pixels; }

  struct position {
    std::size_t sample, channel, pixel;
  };
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t offset(const position& p) const {
    return ((p.sample * blocks + p.channel / V) * pixels + p.pixel) * V + p.channel % V;
  }
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr position position_of(std::size_t offset) const {
    const std::size_t row = offset / V, plane = row / pixels;
    return {plane / blocks, plane % blocks * V + offset % V, row % pixels};
  }
};

/// Where the vectors of activations lie, of `size` numbers each and fewer than 2^31 in all: without
/// a division, which takes longer than the rest of a kernel's loop.
class vector_positions {
 public:
  constexpr vector_positions(const blocked_layout& of, int size)
      : size_(size),
        by_vectors_(static_cast<int>(of.V) / size),
        by_pixels_(static_cast<int>(of.pixels)) {}

  struct position {
    std::size_t plane;  // sample * blocks + block
    int pixel, lane;    // lane: the first number's, 0 .. V-1
  };
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr position operator()(int i) const {
    const int row = by_vectors_.quotient(i), plane = by_pixels_.quotient(row);
    return {static_cast<std::size_t>(plane), row - plane * by_pixels_.divisor,
            (i - row * by_vectors_.divisor) * size_};
  }

 private:
  int size_;
  fast_divisor by_vectors_, by_pixels_;
};

/// A blocked_layout of activations of fewer than 2^31 numbers in all, without a division.
class divided_layout {
 public:
  constexpr explicit divided_layout(const blocked_layout& of)
      : blocks_(static_cast<int>(of.blocks)),
        by_block_(static_cast<int>(of.V)),
        by_pixels_(static_cast<int>(of.pixels)),
        by_blocks_(blocks_) {}

  struct position {
    int sample, channel, pixel;
  };
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr int offset(const position& p) const {
    const int block = by_block_.quotient(p.channel), V = by_block_.divisor;
    return ((p.sample * blocks_ + block) * by_pixels_.divisor + p.pixel) * V + p.channel -
           block * V;
  }
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr position position_of(int offset) const {
    const int V = by_block_.divisor, row = by_block_.quotient(offset),
              plane = by_pixels_.quotient(row), sample = by_blocks_.quotient(plane);
    return {sample, (plane - sample * blocks_) * V + offset - row * V,
            row - plane * by_pixels_.divisor};
  }

 private:
  int blocks_;
  fast_divisor by_block_, by_pixels_, by_blocks_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
