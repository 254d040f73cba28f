// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/gpu/vec_16b.hpp>

#include "tests/support/device_vectors.hpp"

using namespace cordee;
using namespace support;

TEST_CASE_TEMPLATE("vec_16b: store writes the `count` numbers that were loaded, and no more", N,
                   half, bfloat, float, double) {
  constexpr int size = detail::ops::vec_16b<N>::size;
  static_assert(size * sizeof(N) == 16);
  for (int count = 0; count <= size; ++count) {
    alignas(16) N from[size], to[size];
    for (int k = 0; k < size; ++k) {
      from[k] = nearest<N>(k + 1.5);
      to[k] = nearest<N>(-7);
    }
    const detail::ops::vec_16b<N> z(from, count);
    z.store(to, count);
    if (count == size) {
      alignas(16) N whole[size];
      z.store_whole(whole);
      CHECK(std::memcmp(whole, to, sizeof(to)) == 0);
    }
    for (int k = 0; k < size; ++k) {
      CHECK(static_cast<double>(z.value[k]) == (k < count ? k + 1.5 : 0));
      CHECK(to_double(to[k]) == (k < count ? k + 1.5 : -7));
    }
  }
}

TEST_CASE_TEMPLATE(
    "vec_16b: the width is a whole vector where rows and arrays are aligned to 16 bytes, else 1", N,
    half, float, double) {
  constexpr int size = detail::ops::vec_16b<N>::size;
  alignas(16) N memory[size + 1] = {};
  CHECK(detail::ops::vec_16b_width<N>(size, memory) == size);
  CHECK(detail::ops::vec_16b_width<N>(3 * size, memory, memory) == size);
  CHECK(detail::ops::vec_16b_width<N>(size + 1, memory) == 1);
  CHECK(detail::ops::vec_16b_width<N>(1, memory) == 1);
  CHECK(detail::ops::vec_16b_width<N>(size, memory, memory + 1) == 1);
}
