// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/tensor_core/tile.hpp>

using namespace cordee;

TEST_CASE("tile: the narrowest with enough columns, or the widest") {
  for (const auto& [columns, wanted] :
       {std::pair{8, 32}, {32, 32}, {40, 64}, {64, 64}, {72, 128}, {512, 128}})
    detail::ops::with_tensor_core_tile(columns,
                                       [wanted](auto tile) { CHECK(tile.columns == wanted); });
}

TEST_CASE("tile: the threads of a block hold every accumulator of its tile once") {
  for (const int columns : {32, 64, 128})
    detail::ops::with_tensor_core_tile(columns, [](auto tile) {
      using T = decltype(tile);
      std::vector<int> count(T::rows * T::columns);
      for (int t = 0; t < T::threads; ++t)
        detail::ops::warp_tile<T, detail::device::mma_f16>(t).for_each_accumulator(
            [&](int row, int column, float sum) {
              CHECK(sum == 0);
              ++count[static_cast<std::size_t>(row * T::columns + column)];
            });
      CHECK(count == std::vector<int>(count.size(), 1));
    });
}
