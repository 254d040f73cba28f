// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/direct/bfloat_tile.hpp>

#include "tests/support/small_bfloats.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using support::small_bfloats;

TEST_CASE_TEMPLATE("bfloat_tile: a row of any length is the sum over window and channels", Count,
                   std::integral_constant<int, 1>, std::integral_constant<int, 2>) {
  constexpr int V = lanes<float>, blocks = 2, window = 2, filters = Count::value;
  for (const int step : {1, 2})
    for (int pixels = 1; pixels <= 33; ++pixels) {
      CAPTURE(pixels);
      const std::ptrdiff_t columns = (pixels - 1) * step + window, x_row = columns * V,
                           w_block = std::ptrdiff_t{blocks} * window * window * V * V;
      const auto x = small_bfloats(blocks * window * x_row, 1),
                 w = small_bfloats(filters * w_block, 2),
                 y0 = small_bfloats(filters * pixels * V, 3);
      auto y = y0;
      const bfloat_area area{.blocks = blocks,
                             .window = window,
                             .x = x.data(),
                             .x_step = std::ptrdiff_t{V} * step,
                             .x_row = x_row,
                             .x_block = window * x_row,
                             .w = w.data(),
                             .w_block = w_block,
                             .y = y.data(),
                             .y_block = std::ptrdiff_t{V} * pixels,
                             .add = pixels % 2 == 1};
      bfloat_row<V, true, filters>(area, pixels);
      bool equal = true;
      for (int f = 0; f < filters; ++f)
        for (int t = 0; t < pixels; ++t)
          for (int v = 0; v < V; ++v) {
            const std::ptrdiff_t at = (std::ptrdiff_t{f} * pixels + t) * V + v;
            float sum = area.add ? y0[at].exact() : 0;
            for (int b = 0; b < blocks; ++b)
              for (int r = 0; r < window; ++r)
                for (int s = 0; s < window; ++s)
                  for (int c = 0; c < V; ++c)
                    sum += x[(b * window + r) * x_row + (t * step + s) * V + c].exact() *
                           w[f * w_block + ((b * window + r) * window + s) * V * V +
                             (c / 2 * V + v) * 2 + c % 2]
                               .exact();
            equal = equal && y[at].exact() == sum;
          }
      CHECK(equal);
    }
}
