// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/ops/packed_table.hpp>

using cordee::detail::ops::packed_tensor;

TEST_CASE(
    "packed_table: a tensor begins with a chunk of its own, by its size and its packed size") {
  packed_tensor weights;
  weights.channels = 3;
  weights.filters = 64;
  weights.taps = 49;
  weights.padded_channels = 8;
  weights.padded_filters = 64;
  CHECK(weights.size() == 64 * 3 * 49);
  CHECK(weights.packed_size() == 64 * 8 * 49);
  const auto scale = weights.followed_by(cordee::detail::ops::packed_vector(10, 20, 60, 64));
  CHECK(scale.master_chunks == 3);  // 9,408 numbers
  CHECK(scale.packed_chunks == 7);  // 25,088
  CHECK(scale.size() == 60);
  CHECK(scale.packed_size() == 64);
  CHECK_FALSE(scale.is_number);
  const auto next = scale.followed_by(weights);
  CHECK(next.master_chunks == 4);
  CHECK(next.packed_chunks == 8);
}
