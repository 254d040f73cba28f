// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Indexing of activations (N, ceil(C / V), H, W, V) with V known at run time: a GPU kernel is
// compiled once for all layouts (ops/layout.hpp).
#pragma once

#include <cstddef>

#include <cordee/core/extent.hpp>
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
  /// The first number of vector i, of `size` numbers each: by divisions of 32 bits, which take a
  /// fraction of the time of those of 64.
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr position position_of_vector(unsigned i,
                                                                         unsigned size) const {
    const unsigned vectors = static_cast<unsigned>(V) / size, row = i / vectors,
                   side = static_cast<unsigned>(pixels), plane = row / side,
                   count = static_cast<unsigned>(blocks);
    return {plane / count, plane % count * V + std::size_t{i % vectors * size}, row % side};
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
