// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Copies samples into the planes of a tile_correlation_plan.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <cordee/ops/engines/amx/tiles/correlation_plan.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Runs of the plane's pixels u .. u + count - 1 of a row that are adjacent in it: f(u, count).
template <class F>
void for_adjacent_pixels(const tile_correlation_plan& plan, int first, int last, const F& f) {
  const int step = plan.together == 1 ? std::max(1, last - first) : plan.columns.step;
  for (int u = first; u < last;) {
    const int end = plan.together == 1 ? last : std::min(last, (u / step + 1) * step);
    f(u, end - u);
    u = end;
  }
}

/// Pixels of an input row from pixel `first` of the plane on, `count` of them: blocks of `from`
/// numbers become blocks of `to`, with zeros behind them.
template <class N>
void copy_pixels(const N* x, int spacing, int from, int to, int count, N* plane) {
  const auto block = static_cast<std::size_t>(from) * sizeof(N);
  if (from == to && spacing == 1) {
    std::memcpy(plane, x, block * static_cast<std::size_t>(count));
    return;
  }
  for (int i = 0; i < count; ++i, x += std::ptrdiff_t{spacing} * from, plane += to) {
    if (from == tile_channels && to == tile_channels) {
      std::memcpy(plane, x, tile_channels * sizeof(N));  // of a known size
      continue;
    }
    std::memcpy(plane, x, block);
    std::fill(plane + from, plane + to, N{});
  }
}

/// One row of the plane: sample n's row `x` of one block, or zeros if it is null.
template <class N>
void fill_plane_row(const tile_correlation_plan& plan, const N* x, int n, int u, N* plane) {
  const tile_axis& columns = plan.columns;
  const int left = x == nullptr ? plan.row_pixels : columns.left,
            last = x == nullptr ? left : left + columns.inside;
  N* const sample = plane + std::ptrdiff_t{n} * columns.step * plan.pixel;
  const auto zeros = [&](int from, int count) {
    std::fill_n(sample + plan.at(u, from), std::ptrdiff_t{count} * plan.pixel, N{});
  };
  for_adjacent_pixels(plan, 0, left, zeros);
  for_adjacent_pixels(plan, left, last, [&](int from, int count) {
    copy_pixels(x + std::ptrdiff_t{columns.first + from * columns.spacing} * plan.in_block,
                columns.spacing, plan.in_block, plan.pixel, count, sample + plan.at(u, from));
  });
  for_adjacent_pixels(plan, last, plan.row_pixels, zeros);
}

/// The planes of `samples` samples, at most plan.together, which are `size` numbers apart.
/// Positions of samples that are missing keep what the memory held.
template <class N>
void fill_planes(const tile_correlation_plan& plan, const N* x, int samples, std::size_t size,
                 N* planes) {
  const std::ptrdiff_t row = std::ptrdiff_t{plan.in.width} * plan.in_block;
  const int rows = plan.planes() * plan.plane_rows();
  for (int c = 0; c < plan.in_blocks; ++c, planes += plan.block_size())
    for (int n = 0; n < samples; ++n) {
      const N* const block = x + static_cast<std::ptrdiff_t>(size) * n + c * row * plan.in.height;
      for (int i = 0; i < rows; ++i) {
        // In the order of the memory; the last plane may have a row less, which is zero.
        const int u = i % plan.plane_rows() * plan.rows.step + i / plan.plane_rows();
        const int h = plan.rows.first + u * plan.rows.spacing;
        const bool inside = u >= plan.rows.left && u < plan.rows.left + plan.rows.inside;
        fill_plane_row(plan, inside ? block + h * row : nullptr, n, u, planes);
      }
    }
  std::fill_n(planes, plan.tail(), N{});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
