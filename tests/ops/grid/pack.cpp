// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/grid/pack.hpp>

#include "tests/support/on_grid.hpp"

using namespace cordee;
using namespace support;

TEST_CASE_TEMPLATE("pack: what was read is written, `count` numbers and no more", N, half, bfloat,
                   float, double) {
  constexpr int size = detail::pack<N>::size;
  static_assert(size * sizeof(N) == 16);
  for (int count = 0; count <= size; ++count) {
    alignas(16) N from[size], to[size];
    for (int k = 0; k < size; ++k) {
      from[k] = nearest<N>(k + 1.5);
      to[k] = nearest<N>(-7);
    }
    const detail::pack<N> z(from, count);
    z.store(to, count);
    for (int k = 0; k < size; ++k) {
      CHECK(static_cast<double>(z.at[k]) == (k < count ? k + 1.5 : 0));
      CHECK(exact(to[k]) == (k < count ? k + 1.5 : -7));
    }
  }
}

TEST_CASE_TEMPLATE("pack: is taken whole where rows and all memories begin at one", N, half, float,
                   double) {
  constexpr int size = detail::pack<N>::size;
  alignas(16) N memory[size + 1] = {};
  CHECK(detail::pack_width<N>(size, memory) == size);
  CHECK(detail::pack_width<N>(3 * size, memory, memory) == size);
  CHECK(detail::pack_width<N>(size + 1, memory) == 1);
  CHECK(detail::pack_width<N>(1, memory) == 1);
  CHECK(detail::pack_width<N>(size, memory, memory + 1) == 1);
}
