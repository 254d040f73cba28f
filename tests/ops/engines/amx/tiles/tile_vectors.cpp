// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/amx/tiles/tile_vectors.hpp>

namespace {

using namespace cordee;
using namespace cordee::detail::ops;

/// Two products, added to c, of the first two tiles of A and B in memory.
template <class Unit>
std::vector<std::uint32_t> products(const tile_shapes& shapes, const std::vector<std::uint16_t>& a,
                                    const std::vector<std::uint16_t>& b, bool bytes) {
  std::vector<std::uint32_t> c(256, 0x3f800000u);
  Unit unit(shapes);
  unit.template load<0>(c.data(), 64);
  for (const std::size_t tile : {0u, 512u}) {
    unit.template load<1>(a.data() + tile, 64);
    unit.template load<2>(b.data() + tile, 64);
    if (bytes)
      unit.template add_bytes<0, 1, 2>();
    else
      unit.template add_bf16<0, 1, 2>();
  }
  unit.template store<0>(c.data(), 64);
  return c;
}

}  // namespace

TEST_CASE("tile_vectors: products have the bits of the model, of tiles of any shape") {
  std::mt19937 rng(1);
  for (const int rows : {1, 5, 16})
    for (const int columns : {1, 5, 16})
      for (const int steps : {1, 7, 16}) {
        CAPTURE(rows);
        CAPTURE(columns);
        CAPTURE(steps);
        std::vector<std::uint16_t> a(1024), b(1024);
        // Exponents about 1 and, one in eight, where products are subnormal.
        const auto number = [&] {
          const auto bits = static_cast<unsigned>(rng());
          return static_cast<std::uint16_t>((bits & 0x80ffu) |
                                            (bits >> 16 & 7u ? 0x3f00u : 0x1f00u));
        };
        for (auto& x : a) x = number();
        for (auto& x : b) x = number();
        const auto shapes = tile_shapes{}
                                .set(0, rows, 4 * columns)
                                .set(1, rows, 4 * steps)
                                .set(2, steps, 4 * columns);
        for (const bool bytes : {false, true})
          CHECK(products<tile_vectors>(shapes, a, b, bytes) ==
                products<tile_model>(shapes, a, b, bytes));
      }
}

#if defined(__SSE__)
TEST_CASE("tile_vectors: subnormal numbers are zero in a product, and there alone") {
  const auto shapes = tile_shapes{}.set(0, 1, 4).set(1, 1, 4).set(2, 1, 4);
  const std::vector<std::uint16_t> tiny(1024, 0x0001), small(1024, 0x1f80), one(1024, 0x3f80);
  const auto product = [&](const auto& a, const auto& b) {
    tile_vectors unit(shapes);
    float c = 0;
    unit.load<1>(a.data(), 64);
    unit.load<2>(b.data(), 64);
    unit.add_bf16<0, 1, 2>();
    unit.store<0>(&c, 4);
    return c;
  };
  CHECK(product(tiny, one) == 0);     // an operand
  CHECK(product(small, small) == 0);  // a result: 2^-128
  CHECK(product(one, one) == 2);
  volatile float smallest = 0x1p-126f;
  CHECK(smallest / 2 > 0);
}
#endif
