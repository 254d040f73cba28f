// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/ops/engines/amx/bf16/deferred_sums.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

/// Sums of `rows` rows that are rounded `at_once` at a time, and y as the definition has it.
void check_rows(int rows, bool has_second, bool add, int cell, int at_once) {
  CAPTURE(rows);
  CAPTURE(cell);
  CAPTURE(at_once);
  const int width = has_second ? 2 * tile_filters : tile_filters;
  std::vector<float> sums(deferred_sums::size);
  random_sequence draw(1, purpose::test, 0, 0);
  for (float& sum : sums) sum = static_cast<float>(draw.normal());
  const std::ptrdiff_t pixel = 2 * tile_filters, row_pitch = pixel * cell * rows;
  std::vector<bfloat> y(static_cast<std::size_t>(row_pitch * cell), bfloat::nearest(0.75F));
  std::vector<bfloat> expected = y;
  std::vector<std::ptrdiff_t> targets;
  for (int m = 0; m < rows; ++m) {
    targets.push_back(m % 5 == 3 ? -1 : (rows - 1 - m) * pixel * cell);  // in any order, with gaps
    if (targets.back() < 0) continue;
    for (int i = 0; i < cell; ++i)
      for (int j = 0; j < cell; ++j)
        for (int k = 0; k < width; ++k) {
          bfloat& to =
              expected[static_cast<std::size_t>(targets.back() + i * row_pitch + j * pixel + k)];
          const float sum = sums[static_cast<std::size_t>(m * width + k)];
          to = i + j > 0 ? bfloat{} : bfloat::nearest((add ? to.exact() : 0.0F) + sum);
        }
  }
  deferred_sums deferred(sums.data());
  CHECK(deferred.left() == 0);
  deferred.add(
      {targets.data(), rows, y.data(), has_second ? tile_filters : 0, add, cell, row_pitch});
  for (int left = rows; left > 0; left -= at_once) {
    CHECK(deferred.left() == left);
    deferred.run(at_once);
  }
  CHECK(deferred.left() == 0);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < y.size(); ++i) wrong += y[i].bits != expected[i].bits;
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("amx deferred sums: rounded as bfloat::nearest, wherever they go, some at a time") {
  for (const int rows : {1, 2, 16, 31, 32})
    for (const int at_once : {1, 3, 32}) {
      check_rows(rows, false, false, 1, at_once);
      check_rows(rows, true, false, 1, at_once);
      check_rows(rows, false, true, 1, at_once);
      check_rows(rows, true, true, 1, at_once);
    }
}

TEST_CASE("amx deferred sums: a strided gradient's other pixels are zero") {
  for (const int rows : {1, 5, 32})
    for (const int cell : {2, 3}) check_rows(rows, true, false, cell, 2);
}
