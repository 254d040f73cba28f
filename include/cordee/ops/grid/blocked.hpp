// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Places in activations (N, ceil(C / V), H, W, V), where V is known when the program runs: a kernel
// for a GPU is compiled once for all layouts (ops/layout.hpp).
#pragma once

#include <cstddef>

#include <cordee/core/extent.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

struct blocked {
  std::size_t channels, pixels, V, blocks;

  constexpr blocked(const extent& e, int block)
      : channels(static_cast<std::size_t>(e.channels)),
        pixels(e.pixels()),
        V(static_cast<std::size_t>(block)),
        blocks(blocks_of(e.channels, block)) {}

  /// Channels with those that fill up the last block.
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t lanes() const { return blocks * V; }
  /// Numbers of a sample.
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t size() const { return lanes() * pixels; }

  struct place {
    std::size_t sample, channel, pixel;
  };
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t index(const place& at) const {
    return ((at.sample * blocks + at.channel / V) * pixels + at.pixel) * V + at.channel % V;
  }
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr place at(std::size_t index) const {
    const std::size_t row = index / V, plane = row / pixels;
    return {plane / blocks, plane % blocks * V + index % V, row % pixels};
  }
};

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
