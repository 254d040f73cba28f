// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How the sums of one sample in engine `direct`'s convolution of bytes are divided among threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/equal_part.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Blocks of filters, from an even one on, and rows of y.
struct byte_region {
  int first_block, last_block, first_row, last_row;

  [[nodiscard]] bool empty() const { return first_block >= last_block || first_row >= last_row; }
  [[nodiscard]] int rows() const { return last_row - first_row; }
};

/// Sums of blocks of V filters at adjacent pixels.
struct byte_sums_chunk {
  int filter_block, blocks;
  std::size_t first, pixels;
  const std::int32_t* sums;  // (blocks, pixels, V)
  std::size_t next;          // pixels from here to what the thread writes next, 0: to nothing
};

struct byte_regions {
  int filter_blocks, height;  // of y
  std::size_t products;       // of two blocks of filters and a row of y
  std::size_t filter_bytes;   // of two blocks of filters
  std::size_t row_bytes;      // of the sample, for each row of y

  /// Divides pairs of blocks, rows, or both in a grid: so that the largest region has few products,
  /// and, if two grids have as many, so that it reads few bytes. Regions may be empty.
  [[nodiscard]] byte_region of(core::equal_part part) const {
    if (part.count == 1) return {0, filter_blocks, 0, height};
    const std::size_t pairs = (static_cast<std::size_t>(filter_blocks) + 1) / 2,
                      rows = static_cast<std::size_t>(height);
    std::size_t least = SIZE_MAX, by_rows = 1;
    for (std::size_t n = 1; n <= part.count; ++n) {
      if (part.count % n != 0) continue;
      const std::size_t most_pairs = (pairs * n + part.count - 1) / part.count,
                        most_rows = (rows + n - 1) / n,
                        cost = products * most_pairs * most_rows + filter_bytes * most_pairs +
                               row_bytes * most_rows;
      if (cost < least) {
        least = cost;
        by_rows = n;
      }
    }
    const core::equal_part of_pairs{part.index / by_rows, part.count / by_rows},
        of_rows{part.index % by_rows, by_rows};
    return {2 * static_cast<int>(of_pairs.first(pairs)),
            std::min(filter_blocks, 2 * static_cast<int>(of_pairs.last(pairs))),
            static_cast<int>(of_rows.first(rows)), static_cast<int>(of_rows.last(rows))};
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
