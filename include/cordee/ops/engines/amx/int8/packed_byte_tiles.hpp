// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The packed weights of engine `amx` for bytes: (K/2V, C/B, R, window tiles, 2, 16, V, 4), two
// tiles of V filters for each 64 adjacent bytes of a window row (byte_planes.hpp), with zeros where
// a window row or the filters end. They are followed by (K), the sum of each filter: minus the zero
// point times it is the initial value of that filter's sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <cordee/core/algorithm.hpp>
#include <cordee/ops/engines/amx/int8/byte_planes.hpp>
#include <cordee/ops/engines/amx/tiles/tile_unit.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

template <int V>
struct packed_byte_tiles {
  static constexpr std::ptrdiff_t tile = std::ptrdiff_t{tile_rows} * 4 * V;

  explicit packed_byte_tiles(const byte_planes<V>& planes)
      : filter_blocks(static_cast<int>(channel_blocks(planes.problem.filters, V))),
        pair_size(2 * tile * planes.groups * planes.window_rows * planes.window_tiles()),
        tiles_size((filter_blocks + 1) / 2 * pair_size) {}

  [[nodiscard]] std::size_t size() const {
    return static_cast<std::size_t>(tiles_size) +
           static_cast<std::size_t>(filter_blocks) * V * sizeof(std::int32_t);
  }
  void pack(const byte_planes<V>& planes,
            const std::int8_t* weights,  // (K, C, R, S)
            std::int8_t* packed) const {
    const convolution_problem& p = planes.problem;
    std::fill(packed, packed + size(), std::int8_t{0});
    for (int k = 0; k < p.filters; ++k) {
      std::int8_t* const tiles = packed + k / (2 * V) * pair_size + k / V % 2 * tile;
      std::int32_t sum = 0;
      for (int c = 0; c < p.in.channels; ++c)
        for (int tap = 0; tap < p.window * p.window; ++tap, ++weights) {
          const auto [row, byte] = planes.place_of(c, tap / p.window, tap % p.window);
          const std::ptrdiff_t pair =
              std::ptrdiff_t{row} * planes.window_tiles() + byte / tile_bytes;
          const int at = byte % tile_bytes;
          tiles[2 * pair * tile + (at / 4 * V + k % V) * 4 + at % 4] = *weights;
          sum += *weights;
        }
      std::memcpy(packed + tiles_size + std::ptrdiff_t{k} * 4, &sum, 4);
    }
  }
  /// The sum of a filter's weights.
  [[nodiscard]] std::int32_t sum_of(const std::int8_t* packed, std::size_t filter) const {
    std::int32_t sum;
    std::memcpy(&sum, packed + tiles_size + 4 * static_cast<std::ptrdiff_t>(filter), sizeof sum);
    return sum;
  }

  int filter_blocks;
  std::ptrdiff_t pair_size;   // of the tiles of two blocks of filters
  std::ptrdiff_t tiles_size;  // of all
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
