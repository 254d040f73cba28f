// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Tiles of bf16 against the equations of their headers, with small whole numbers: the sums are
// exact in any order. Group: channels together in the packed weights, two (dot products) or four
// (small matrices).
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/ops/engines/direct/bf16/bfloat_matrix_tile.hpp>
#include <cordee/ops/engines/direct/bf16/bfloat_rows3x3.hpp>
#include <cordee/ops/engines/direct/bf16/bfloat_tile.hpp>

#include "tests/support/small_bfloats.hpp"

namespace support {

using namespace cordee;
using namespace cordee::detail::ops;

/// Two rows of any length, of `channels` adjacent channels; Step as in bfloat_rows.
template <int V, int Group, int filters, int Step = 0>
void check_bfloat_rows(int channels, int window) {
  constexpr int blocks = 2, rows = 2;
  const std::ptrdiff_t numbers = std::ptrdiff_t{window} * channels,
                       groups = (numbers + Group - 1) / Group;
  for (int step = 1; step <= (Step == 0 ? 2 : 1); ++step)
    for (int pixels = 1; pixels <= 33; ++pixels) {
      CAPTURE(channels);
      CAPTURE(pixels);
      const std::ptrdiff_t columns = std::ptrdiff_t{pixels - 1} * step + window,
                           x_row = columns * channels, x_block = (window + rows - 1) * x_row,
                           w_row = groups * Group * V,
                           w_block = std::ptrdiff_t{blocks} * window * w_row;
      const auto x = small_bfloats(blocks * x_block, 1),
                 y0 = small_bfloats(filters * rows * pixels * V, 3);
      auto y = y0, w = small_bfloats(filters * w_block, 2);
      // A row's last group begins so that it ends with the row: some numbers are in two groups.
      for (std::ptrdiff_t row = 0; row < filters * blocks * window; ++row)
        for (int v = 0; v < V; ++v)
          for (std::ptrdiff_t n = numbers; n < groups * Group; ++n)
            w[(row + 1) * w_row - Group * V + Group * v + n - numbers] = {};
      const bfloat_area area{.blocks = blocks,
                             .rows = window,
                             .row_numbers = numbers,
                             .x = x.data(),
                             .x_step = std::ptrdiff_t{channels} * step,
                             .x_row = x_row,
                             .x_block = x_block,
                             .w = w.data(),
                             .w_block = w_block,
                             .y = y.data(),
                             .y_block = std::ptrdiff_t{V} * rows * pixels,
                             .add = pixels % 2 == 1};
      bfloat_rows<V, true, filters, Step, Group>(area, rows, pixels, x_row,
                                                 std::ptrdiff_t{V} * pixels);
      bool equal = true;
      for (int f = 0; f < filters; ++f)
        for (int i = 0; i < rows * pixels; ++i)
          for (int v = 0; v < V; ++v) {
            const std::ptrdiff_t at = (std::ptrdiff_t{f} * rows * pixels + i) * V + v,
                                 tile = i / pixels * x_row +
                                        std::ptrdiff_t{i % pixels} * step * channels;
            float sum = area.add ? y0[at].exact() : 0;
            for (std::ptrdiff_t row = 0; row < blocks * window; ++row)
              for (std::ptrdiff_t n = 0; n < numbers; ++n) {
                const std::ptrdiff_t group = n - n % Group;
                sum += x[row / window * x_block + row % window * x_row + tile + n].exact() *
                       w[f * w_block + row * w_row + group * V + Group * v + n -
                         std::min(group, numbers - Group)]
                           .exact();
              }
            equal = equal && y[at].exact() == sum;
          }
      CHECK(equal);
    }
}

/// The 3x3 window: two window rows of two blocks of channels.
template <int V, int Group, int Filters, int In, int Out>
void check_bfloat_rows3x3(int pixels, int columns, bool add) {
  constexpr int blocks = 2, rows = 2;
  CAPTURE(Filters);
  CAPTURE(In);
  CAPTURE(Out);
  CAPTURE(pixels);
  CAPTURE(columns);
  const std::ptrdiff_t x_row = (std::ptrdiff_t{columns} + 2) * V, x_block = rows * x_row,
                       w_row = std::ptrdiff_t{3} * V * V, w_block = rows * w_row,
                       y_block = std::ptrdiff_t{pixels} * V + 2 * V;
  auto x = small_bfloats(blocks * x_block, 1);
  const auto w = small_bfloats(Filters * blocks * w_block, 2),
             y0 = small_bfloats(Filters * y_block, 3);
  // NaN beside a row, where a pixel outside the image would be read from memory.
  const bfloat nan = bfloat::nearest(std::numeric_limits<float>::quiet_NaN());
  for (std::ptrdiff_t at = 0; at < blocks * x_block; ++at)
    if (at % x_row < V || at % x_row >= x_row - V) x[at] = nan;
  auto y = y0;
  bfloat_rows_area area{.blocks = blocks,
                        .window_rows = rows,
                        .columns = columns,
                        .x_block = x_block,
                        .w_block = w_block,
                        .w_filters = blocks * w_block,
                        .y = y.data(),
                        .y_block = y_block,
                        .add = add};
  for (int r = 0; r < rows; ++r) {
    area.x[r] = x.data() + r * x_row + V;
    area.w[r] = w.data() + r * w_row;
  }
  bfloat_rows3x3_run<V, true, Filters, In, Out, Group>(area, pixels);
  bool equal = true;
  for (int f = 0; f < Filters; ++f)
    for (int v = 0; v < pixels + 2; ++v)
      for (int k = 0; k < V; ++k) {
        const std::ptrdiff_t at = f * y_block + std::ptrdiff_t{v} * V + k;
        float sum = add || v >= pixels ? y0[at].exact() : 0;  // nothing between blocks is written
        for (int s = 0; s < 3 && v < pixels; ++s) {
          const int e = v * In + s - (Out - 1), t = e / Out - (Out == 1 ? 1 : 0);
          if (e < 0 || e % Out != 0 || t < 0 || t >= columns) continue;
          for (int b = 0; b < blocks; ++b)
            for (int r = 0; r < rows; ++r)
              for (int c = 0; c < V; ++c)
                sum += x[b * x_block + r * x_row + (t + 1) * V + c].exact() *
                       w[f * blocks * w_block + b * w_block + r * w_row + s * V * V +
                         (c / Group * V + k) * Group + c % Group]
                           .exact();
        }
        equal = equal && y[at].exact() == sum;
      }
  CHECK(equal);
}

template <int V, int Group, int In, int Out>
void check_bfloat_blocks3x3(int pixels, int columns) {
  for (const bool add : {false, true}) {
    check_bfloat_rows3x3<V, Group, 1, In, Out>(pixels, columns, add);
    check_bfloat_rows3x3<V, Group, 2, In, Out>(pixels, columns, add);
  }
}

}  // namespace support
