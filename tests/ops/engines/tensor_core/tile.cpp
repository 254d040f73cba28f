// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/tensor_core/tile.hpp>

using namespace cordee;

namespace {

/// 1000 row + column of an accumulator in the block's tile.
template <class Warp>
int place(const Warp& warp, int i, int j, int s) {
  using accumulators = detail::device::accumulator_fragment<detail::device::mma_f16>;
  return (warp.row + 16 * i + accumulators::row(warp.lane, s)) * 1000 + warp.column + 16 * j +
         accumulators::column(warp.lane, s);
}

}  // namespace

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
      for (int t = 0; t < T::threads; ++t) {
        detail::ops::warp_tile<T, detail::device::mma_f16> warp(t);
        for (int i = 0; i < T::fragments_down; ++i)
          for (int j = 0; j < T::fragments_across; ++j)
            for (int s = 0; s < 8; ++s)
              warp.c[i][j].value[s] = static_cast<float>(place(warp, i, j, s));
        warp.for_each_pair([&](int down, int across, const float(&sums)[2]) {
          for (int k = 0; k < 2; ++k) {
            const int at = (warp.first_row() + down) * 1000 + warp.first_column() + across + k;
            CHECK(sums[k] == static_cast<float>(at));
            ++count[static_cast<std::size_t>(at / 1000 * T::columns + at % 1000)];
          }
        });
      }
      CHECK(count == std::vector<int>(count.size(), 1));
    });
}
