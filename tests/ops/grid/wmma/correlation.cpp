// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/ops/grid/wmma/correlation.hpp>

#include "tests/ops/grid/wmma/tiled.hpp"

using namespace support;

namespace {

template <class Tile>
std::vector<double> made(std::uint64_t seed = 1) {
  const tiled<half, Tile> by{.at = bench_on{emulated{seed}}};
  auto y = by.room();
  by.correlate(as_it_is{}, stored<half>{y.data()});
  return by.numbers(y);
}

}  // namespace

TEST_CASE("correlation: no tile, and no order of blocks and threads, changes a bit") {
  const tiled<> by;
  const auto wanted = as<half>(by.exact(by.x));
  CHECK(made<detail::wmma_tile<32, 4>>() == wanted);
  CHECK(made<detail::wmma_tile<32, 4>>(2) == wanted);
  CHECK(made<detail::wmma_tile<64, 2>>() == wanted);
  CHECK(made<detail::wmma_tile<128, 2>>() == wanted);
}

TEST_CASE("correlation: what is added to is rounded once, with the sum") {
  const tiled<> by;
  const auto before = short_numbers<half>(size(by.samples) * by.p.out().size(), 3);
  auto wanted = by.exact(by.x);
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += before[i];
  auto y = by.in_memory(before, by.p.out());
  by.correlate(as_it_is{}, stored<half>{y.data(), into::add});
  CHECK(by.numbers(y) == as<half>(wanted));
}
