// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/ops/engines/direct/bf16/bfloat_rows3x3.hpp>

#include "tests/support/bfloat_tiles.hpp"

using support::check_bfloat_blocks3x3;

namespace {
constexpr int V = cordee::detail::ops::lanes<float>;
}

TEST_CASE("bfloat_rows3x3: stride 1, every width") {
  for (int width = 1; width <= 33; ++width) check_bfloat_blocks3x3<V, 2, 1, 1>(width, width);
}
TEST_CASE("bfloat_rows3x3: stride 2 forwards, from rows of even and odd width") {
  for (int width = 1; width <= 33; ++width)
    for (const int columns : {2 * width - 1, 2 * width})
      check_bfloat_blocks3x3<V, 2, 2, 1>(width, columns);
}
TEST_CASE("bfloat_rows3x3: backward through stride 2, into rows of even and odd width") {
  for (int columns = 1; columns <= 17; ++columns)
    for (const int pixels : {2 * columns - 1, 2 * columns})
      check_bfloat_blocks3x3<V, 2, 1, 2>(pixels, columns);
}
