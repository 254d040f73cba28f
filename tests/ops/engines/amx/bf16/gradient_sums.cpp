// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/amx/bf16/gradient_sums.hpp>

#include "tests/support/engines.hpp"

using namespace cordee;
using namespace cordee::detail::ops;

TEST_CASE("gradient_sums: every weight comes from its filter, channel and tap, and no other") {
  for (const convolution_problem& p : {convolution_problem{{32, 9, 9}, 32, 3, 1, 1},
                                       {{64, 9, 9}, 64, 3, 1, 1},    // past the caches
                                       {{256, 9, 9}, 256, 1, 1, 0},  // past the caches

                                       {{48, 9, 9}, 10, 3, 1, 1},
                                       {{64, 9, 9}, 33, 1, 1, 0},
                                       {{40, 9, 9}, 16, 1, 1, 0},
                                       {{31, 9, 9}, 3, 1, 1, 0},
                                       {{16, 9, 9}, 17, 7, 1, 0},
                                       {{3, 9, 9}, 40, 7, 1, 3},
                                       {{4, 9, 9}, 2, 5, 1, 3}}) {
    CAPTURE(support::describe(p));
    const amx_gradient_plan plan = plan_amx_gradient(p, 2);
    std::vector<float> sums(plan.sums_size(), -1);
    const gradient_sums tiles(plan, sums.data(), 0, 0, plan.column_tiles());
    for (int t = 0; t < plan.filter_tiles; ++t)
      for (int i = 0; i < plan.column_tiles(); ++i)
        for (int m = 0; m < 16; ++m)
          for (int n = 0; n < 16; ++n) {
            const auto [tile, r, s] = plan.column_at(i);
            const auto channel_of = [](int all, int of_tile, int lane) {
              return tile_block_size(all) == 32 ? of_tile / 2 * 32 + 2 * lane + of_tile % 2
                                                : of_tile * 16 + lane;
            };
            const int k = channel_of(p.filters, t, m), word = tile * 16 + n,
                      c = plan.image ? word % p.in.channels : channel_of(p.in.channels, tile, n),
                      column = plan.image ? word / p.in.channels : s;
            if (k >= p.filters || c >= p.in.channels || column >= p.window) continue;
            tiles.at(t, i)[m * 16 + n] =
                static_cast<float>(((k * p.in.channels + c) * p.window + r) * p.window + column);
          }
    for (const int offset : {0, 4}) {  // numbers behind an address that is aligned for a register
      CAPTURE(offset);
      std::vector<float> memory(p.weights() + 1 + 32, 99);
      constexpr std::size_t line = 16;
      float* const dw = memory.data() + offset +
                        (line - reinterpret_cast<std::uintptr_t>(memory.data()) / 4 % line) % line;
      tiles.unpack(0, plan.filter_tiles, 0, plan.channel_pairs(), dw, write_mode::overwrite);
      for (std::size_t i = 0; i < p.weights(); ++i) REQUIRE(dw[i] == static_cast<float>(i));
      tiles.unpack(0, plan.filter_tiles, 0, plan.channel_pairs(), dw, write_mode::add);
      for (std::size_t i = 0; i < p.weights(); ++i) REQUIRE(dw[i] == static_cast<float>(2 * i));
      CHECK(dw[p.weights()] == 99);
    }
  }
}
