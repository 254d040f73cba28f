// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/grid/wmma/tile.hpp>

using namespace cordee;

TEST_CASE("tile: the narrowest that has the columns, or the widest") {
  for (const auto& [columns, wanted] :
       {std::pair{8, 32}, {32, 32}, {40, 64}, {64, 64}, {72, 128}, {512, 128}})
    detail::with_wmma_tile(columns, [wanted](auto tile) { CHECK(tile.columns == wanted); });
}

TEST_CASE("tile: a block's threads hold every sum of it once") {
  for (const int columns : {32, 64, 128})
    detail::with_wmma_tile(columns, [](auto tile) {
      using T = decltype(tile);
      std::vector<int> held(T::rows * T::columns);
      for (int t = 0; t < T::threads; ++t)
        detail::warp_tile<T, half_words>(t).each([&](int row, int column, float sum) {
          CHECK(sum == 0);
          ++held[static_cast<std::size_t>(row * T::columns + column)];
        });
      CHECK(held == std::vector<int>(held.size(), 1));
    });
}
