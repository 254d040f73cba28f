// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/ops/engines/direct/bf16/bfloat_tile.hpp>

#include "tests/support/bfloat_tiles.hpp"

using support::check_bfloat_rows;

namespace {
constexpr int V = cordee::detail::ops::lanes<float>;
}

TEST_CASE("bfloat_tile: a row of any length is the sum over window and channels") {
  check_bfloat_rows<V, 2, 1>(V, 2);
  check_bfloat_rows<V, 2, 2>(V, 2);
}
TEST_CASE("bfloat_tile: a window row of any number of adjacent numbers is summed once") {
  for (const int channels : {1, 2, 3, 4})
    for (const int window : {2, 3, 5}) check_bfloat_rows<V, 2, 1>(channels, window);
  check_bfloat_rows<V, 2, 2>(3, 3);
  check_bfloat_rows<V, 2, 1, 3>(3, 3);
  check_bfloat_rows<V, 2, 2, 3>(3, 3);
}
