// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/direct/bf16/bfloat_tile.hpp>

#include "tests/support/small_bfloats.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using support::small_bfloats;

namespace {

/// Two rows of any length, of `channels` adjacent channels; Step as in bfloat_tile.
template <int filters, int Step = 0>
void check_rows(int channels, int window) {
  constexpr int V = lanes<float>, blocks = 2, rows = 2;
  const std::ptrdiff_t numbers = std::ptrdiff_t{window} * channels, pairs = (numbers + 1) / 2;
  for (int step = 1; step <= (Step == 0 ? 2 : 1); ++step)
    for (int pixels = 1; pixels <= 33; ++pixels) {
      CAPTURE(channels);
      CAPTURE(pixels);
      const std::ptrdiff_t columns = std::ptrdiff_t{pixels - 1} * step + window,
                           x_row = columns * channels, x_block = (window + rows - 1) * x_row,
                           w_row = pairs * 2 * V, w_block = std::ptrdiff_t{blocks} * window * w_row;
      const auto x = small_bfloats(blocks * x_block, 1),
                 y0 = small_bfloats(filters * rows * pixels * V, 3);
      auto y = y0, w = small_bfloats(filters * w_block, 2);
      if (numbers % 2 == 1)  // the number before a row's last is in two pairs
        for (std::ptrdiff_t row = 0; row < filters * blocks * window; ++row)
          for (int v = 0; v < V; ++v) w[(row + 1) * w_row - 2 * V + 2 * v] = {};
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
      bfloat_rows<V, true, filters, Step>(area, rows, pixels, x_row, std::ptrdiff_t{V} * pixels);
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
                const bool last = n == numbers - 1;
                sum +=
                    x[row / window * x_block + row % window * x_row + tile + n].exact() *
                    w[f * w_block + row * w_row + (n / 2 * V + v) * 2 + (last ? 1 : n % 2)].exact();
              }
            equal = equal && y[at].exact() == sum;
          }
      CHECK(equal);
    }
}

}  // namespace

TEST_CASE("bfloat_tile: a row of any length is the sum over window and channels") {
  check_rows<1>(lanes<float>, 2);
  check_rows<2>(lanes<float>, 2);
}
TEST_CASE("bfloat_tile: a window row of any number of adjacent numbers is summed once") {
  for (const int channels : {1, 2, 3, 4})
    for (const int window : {2, 3, 5}) check_rows<1>(channels, window);
  check_rows<2>(3, 3);
  check_rows<1, 3>(3, 3);
  check_rows<2, 3>(3, 3);
}
