// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/amx/tiles/tile_unit.hpp>

namespace {

using namespace cordee;
using namespace cordee::detail::ops;

/// One product of bf16 with these terms: a (1, 2K), b (K, 1, 2), added to c.
float product(float c, const std::vector<float>& a, const std::vector<float>& b) {
  const auto bytes = static_cast<int>(2 * a.size());
  tile_model unit(tile_shapes{}.set(0, 1, 4).set(1, 1, bytes).set(2, bytes / 4, 4));
  std::vector<bfloat> as, bs;
  for (const float x : a) as.push_back(bfloat::nearest(x));
  for (const float x : b) bs.push_back(bfloat::nearest(x));
  unit.load<0>(&c, 4);
  unit.load<1>(as.data(), bytes);
  unit.load<2>(bs.data(), 4);
  unit.add_bf16<0, 1, 2>();
  unit.store<0>(&c, 4);
  return c;
}

}  // namespace

TEST_CASE("tile_unit: terms of one product of bf16 are summed before they are added") {
  CHECK(product(16777216.0f, {1, 1}, {1, 1}) == 16777218.0f);
  CHECK(product(product(16777216.0f, {1, 0}, {1, 0}), {1, 0}, {1, 0}) == 16777216.0f);
  // Even and odd terms are two chains: 2^24 + 1 is rounded in the first.
  CHECK(product(0.0f, {16777216.0f, 1, 1, 1}, {1, 1, 1, 1}) == 16777218.0f);
  CHECK(product(0.0f, {16777216.0f, 1, 1, 0}, {1, 0, 1, 0}) == 16777216.0f);
}

TEST_CASE("tile_unit: subnormal operands and results are zero") {
  constexpr float smallest = 0x1p-126f;
  CHECK(product(0.0f, {smallest / 2, 0}, {1, 0}) == 0.0f);
  CHECK(product(0.0f, {smallest, 0}, {0.5f, 0}) == 0.0f);
  CHECK(product(smallest / 2, {0, 0}, {0, 0}) == 0.0f);
  CHECK(product(0.0f, {smallest, 0}, {1, 0}) == smallest);
}

TEST_CASE("tile_unit: bytes of tiles of any shape, and nothing beyond the shape") {
  for (const int rows : {1, 3, 16})
    for (const int columns : {1, 5, 16})
      for (const int steps : {1, 7, 16}) {
        const auto count = [](int n, int m) {
          return static_cast<std::size_t>(n) * static_cast<std::size_t>(m);
        };
        CAPTURE(rows);
        CAPTURE(columns);
        CAPTURE(steps);
        std::mt19937 rng(static_cast<unsigned>(rows * 10000 + columns * 100 + steps));
        std::vector<std::uint8_t> a(count(rows, 4 * steps));
        std::vector<std::int8_t> b(count(steps, 4 * columns));
        for (auto& x : a) x = static_cast<std::uint8_t>(rng());
        for (auto& x : b) x = static_cast<std::int8_t>(rng());
        std::vector<std::int32_t> c(count(rows, columns), 5), beyond(count(17, 17), -1);
        tile_model unit(tile_shapes{}
                            .set(0, rows, 4 * columns)
                            .set(1, rows, 4 * steps)
                            .set(2, steps, 4 * columns));
        unit.load<0>(c.data(), 4 * columns);
        unit.load<1>(a.data(), 4 * steps);
        unit.load<2>(b.data(), 4 * columns);
        unit.add_bytes<0, 1, 2>();
        unit.store<0>(beyond.data(), 17 * 4);
        for (int m = 0; m < 17; ++m)
          for (int n = 0; n < 17; ++n) {
            std::int32_t expected = -1;
            if (m < rows && n < columns) {
              expected = 5;
              for (int i = 0; i < 4 * steps; ++i)
                expected += a[count(m, 4 * steps) + static_cast<std::size_t>(i)] *
                            b[count(i / 4, 4 * columns) + static_cast<std::size_t>(4 * n + i % 4)];
            }
            REQUIRE(beyond[count(m, 17) + static_cast<std::size_t>(n)] == expected);
          }
      }
}
