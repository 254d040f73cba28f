// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/ops/engines/direct/bf16/bfloat_rows3x3.hpp>

#include "tests/support/small_bfloats.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using support::small_bfloats;

namespace {

constexpr int V = lanes<float>;

/// Two window rows of two blocks of channels, against the equation of the header.
template <int Filters, int In, int Out>
void check(int pixels, int columns, bool add) {
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
  bfloat_rows3x3_run<V, true, Filters, In, Out>(area, pixels);
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
                         (c / 2 * V + k) * 2 + c % 2]
                           .exact();
        }
        equal = equal && y[at].exact() == sum;
      }
  CHECK(equal);
}

template <int In, int Out>
void check_blocks(int pixels, int columns) {
  for (const bool add : {false, true}) {
    check<1, In, Out>(pixels, columns, add);
    check<2, In, Out>(pixels, columns, add);
  }
}

}  // namespace

TEST_CASE("bfloat_rows3x3: stride 1, every width") {
  for (int width = 1; width <= 33; ++width) check_blocks<1, 1>(width, width);
}
TEST_CASE("bfloat_rows3x3: stride 2 forwards, from rows of even and odd width") {
  for (int width = 1; width <= 33; ++width)
    for (const int columns : {2 * width - 1, 2 * width}) check_blocks<2, 1>(width, columns);
}
TEST_CASE("bfloat_rows3x3: backward through stride 2, into rows of even and odd width") {
  for (int columns = 1; columns <= 17; ++columns)
    for (const int pixels : {2 * columns - 1, 2 * columns}) check_blocks<1, 2>(pixels, columns);
}
