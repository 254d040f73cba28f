// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// By Arm's instruction, elsewhere by what it computes.
#include <algorithm>

#include <cordee/ops/engines/direct/bf16/bfloat_matrix_tile.hpp>

#include "tests/support/bfloat_tiles.hpp"

using support::check_bfloat_rows;
using support::check_bfloat_rows3x3;

namespace {
using namespace cordee::detail::ops;
constexpr int V = bfloat_matrices ? lanes<float> : std::min(8, lanes<float>);
}  // namespace

TEST_CASE("bfloat_matrix_tile: a row of any length is the sum over window and channels") {
  check_bfloat_rows<V, 4, 2>(V, 2);
  check_bfloat_rows<V, 4, 1>(V, 2);
  check_bfloat_rows<4, 4, 2, 4>(4, 1);
}
TEST_CASE("bfloat_matrix_tile: a window row of any number of adjacent numbers is summed once") {
  for (const int channels : {1, 2, 3, 4})
    for (const int window : {2, 3, 5})
      if (channels * window >= 4) check_bfloat_rows<V, 4, 1>(channels, window);
}
TEST_CASE("bfloat_matrix_tile: the 3x3 window, every width, forward and backward") {
  for (int width = 1; width <= 33; ++width) {
    const bool add = width % 2 == 0;
    check_bfloat_rows3x3<V, 4, 2, 1, 1>(width, width, add);
    check_bfloat_rows3x3<V, 4, 1, 2, 1>(width, 2 * width - (width % 3 == 0 ? 1 : 0), add);
    check_bfloat_rows3x3<V, 4, 1, 1, 2>(width, (width + 1) / 2, add);
  }
  if constexpr (V == 4)
    for (int width = 1; width <= 33; ++width)
      check_bfloat_rows3x3<V, 4, 1, 1, 1>(width, width, false);
}
