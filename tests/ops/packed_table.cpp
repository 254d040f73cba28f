// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/ops/packed_table.hpp>

using namespace cordee::detail::ops;
using cordee::convolution_problem;

TEST_CASE("packed_table: a tensor begins with a thread block of its own") {
  const auto weights =
      packed_weights({convolution_problem{{3, 8, 8}, 60, 7, 2, 3}, 8, 64}, 0, 0, false);
  CHECK(weights.size() == 60 * 3 * 49);
  CHECK(weights.packed_size() == 64 * 8 * 49);
  CHECK(weights.is_number);
  const auto scale = weights.followed_by(packed_vector(10, 20, 60, 64));
  CHECK(scale.blocks_before == 64 / 8);
  CHECK(scale.size() == 60);
  CHECK(scale.packed_size() == 64);
  CHECK_FALSE(scale.is_number);
  const auto matrix = scale.followed_by(packed_vector(70, 80, 4097, 4097));
  CHECK(matrix.blocks_before == 64 / 8 + 1);
  CHECK(matrix.followed_by(weights).blocks_before == 64 / 8 + 1 + 2);
}

TEST_CASE("packed_table: a tile of any tensor fits the kernel's shared memory") {
  for (const int window : {1, 3, 5, 7, 15, 67, 89})
    for (const int channels : {1, 8, 64, 448, 512, 2048})
      for (const bool has_crsk : {false, true}) {
        const krsc_layout layout(convolution_problem{{channels, 8, 8}, 100, window}, channels, 100);
        const auto tile = packed_weights(layout, 0, 0, has_crsk).tile;
        CAPTURE(window);
        CAPTURE(channels);
        CHECK(tile.numbers() <= filter_tile::most_numbers);
        CHECK(tile.blocks() * tile.filters * tile.channels >= 100 * layout.channels);
      }
  CHECK_THROWS_AS(packed_weights({convolution_problem{{3, 8, 8}, 8, 91}, 8, 8}, 0, 0, false),
                  cordee::usage_error);
}
