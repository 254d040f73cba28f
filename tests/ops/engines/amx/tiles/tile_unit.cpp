// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/amx/tiles/permission.hpp>
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

/// Operands of two products of one shape: a and then e (rows, 64 bytes), b and then f (steps, 64
/// bytes), c (rows, 64 bytes).
struct tile_operands {
  int rows, columns, steps;
  std::uint8_t a[2][16 * 64] = {}, b[2][16 * 64] = {}, c[16 * 64] = {};
};

/// Tile c after both products, in a frame of bytes that no tile writes.
template <class Unit>
std::vector<std::uint32_t> tiles_after_products(const tile_operands& o, bool bf16) {
  std::vector<std::uint32_t> result(17 * 17, 0xABABABABu);
  Unit unit(tile_shapes{}
                .set(5, o.rows, 4 * o.columns)
                .set(7, o.rows, 4 * o.steps)
                .set(0, o.steps, 4 * o.columns));
  unit.template load<5>(o.c, 64);
  for (int i = 0; i < 2; ++i) {
    unit.template load<7>(o.a[i], 64);
    unit.template load<0>(o.b[i], 64);
    if (bf16)
      unit.template add_bf16<5, 7, 0>();
    else
      unit.template add_bytes<5, 7, 0>();
  }
  unit.template store<5>(result.data(), 17 * 4);
  return result;
}

/// A bf16 whose exponent is within 8 of one's; one in 16 is zero, subnormal, near the least normal
/// number or near the greatest.
std::uint16_t any_bf16(std::mt19937& rng) {
  const auto random = rng();
  const auto sign_and_fraction = static_cast<std::uint16_t>(random & 0x807Fu);
  constexpr unsigned rare[] = {0, 1, 2, 250};
  const unsigned exponent =
      (random >> 16 & 15u) == 0 ? rare[random >> 20 & 3u] : 119 + (random >> 20 & 15u);
  return static_cast<std::uint16_t>(sign_and_fraction | exponent << 7);
}

/// Random operands: bf16's in any_bf16's range, bytes of all values.
tile_operands any_operands(std::mt19937& rng, bool bf16) {
  tile_operands o{.rows = static_cast<int>(1 + rng() % 16),
                  .columns = static_cast<int>(1 + rng() % 16),
                  .steps = static_cast<int>(1 + rng() % 16)};
  for (int i = 0; i < 2; ++i)
    for (auto* const tile : {o.a[i], o.b[i]})
      for (int byte = 0; byte < 16 * 64; byte += 2) {
        const auto x = bf16 ? any_bf16(rng) : static_cast<std::uint16_t>(rng());
        std::memcpy(tile + byte, &x, 2);
      }
  for (int byte = 0; byte < 16 * 64; byte += 4) {
    const auto x = bf16 ? static_cast<std::uint32_t>(any_bf16(rng)) << 16 | (rng() & 0xFFFFu)
                        : static_cast<std::uint32_t>(rng());
    std::memcpy(o.c + byte, &x, 4);
  }
  return o;
}

/// The processor's tiles against the model's, bit by bit; any NaN for a NaN.
void compare_tiles(bool bf16) {
  if (std::same_as<default_tile_unit, tile_model> || !tiles_of_process().granted) {
    const std::string reason = std::same_as<default_tile_unit, tile_model>
                                   ? "compiled without AMX (-march=sapphirerapids has it)"
                                   : tiles_of_process().reason;
    MESSAGE("skipped: " << reason);
    return;
  }
  std::mt19937 rng(5);
  for (int trial = 0; trial < 200; ++trial) {
    const tile_operands o = any_operands(rng, bf16);
    const auto expected = tiles_after_products<tile_model>(o, bf16);
    const auto result = tiles_after_products<default_tile_unit>(o, bf16);
    CAPTURE(trial);
    for (std::size_t i = 0; i < result.size(); ++i) {
      CAPTURE(i);
      const bool nan = bf16 && std::isnan(std::bit_cast<float>(result[i])) &&
                       std::isnan(std::bit_cast<float>(expected[i]));
      REQUIRE((nan || result[i] == expected[i]));
    }
  }
}

}  // namespace

TEST_CASE("tile_unit: the processor's products of bf16 have the model's bits") {
  compare_tiles(true);
}

TEST_CASE("tile_unit: the processor's products of bytes have the model's bits") {
  compare_tiles(false);
}

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
