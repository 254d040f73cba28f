// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/amx/int8/byte_tiles.hpp>

#include "tests/ops/engines/amx/int8/counting_tiles.hpp"

using namespace cordee::detail::ops;
using support::counting_tiles;

namespace {

/// Records how many products were before each of its slices.
struct recorded_slices {
  int left = 0;
  std::vector<std::size_t> products{};

  [[nodiscard]] int slices() const { return left; }
  void run_slices(int n) {
    for (n = std::min(n, left); n > 0; --n, --left) {
      CHECK(counting_tiles::counts.stores == 0);  // of the sums that it reads
      products.push_back(counting_tiles::counts.products);
    }
  }
};

}  // namespace

TEST_CASE("byte_tiles: four products for four loads, and half the tiles where there is less") {
  const std::vector<std::uint8_t> x(4096);
  const std::vector<std::int8_t> w(std::size_t{2 * 3 * 2 * 2} * 1024);
  std::vector<std::int32_t> initial(32), sums(64 * 16);
  recorded_slices epilogue;
  const auto count = [&](const auto& kernel) {
    byte_tile_memory at{.x = x.data(),
                        .w = w.data(),
                        .initial = initial.data(),
                        .sums = sums.data(),
                        .groups = 2,
                        .phases = 2,
                        .window_rows = 3,
                        .window_tiles = 2};
    counting_tiles unit(byte_tile_shapes<16>(16));
    counting_tiles::counts = support::tile_counts{};
    kernel(unit, at, epilogue);
    return counting_tiles::counts;
  };
  const auto all = count([](auto& u, auto& at, auto& e) { sum_byte_tiles<16, 2, 2>(u, at, e); });
  CHECK(all.products == 4 * 12);
  CHECK(all.loads == 4 * 12 + 4);
  CHECK(all.stores == 4);
  {
    byte_tile_memory at{.x = x.data(),
                        .w = w.data(),
                        .sums = sums.data(),
                        .groups = 1,
                        .phases = 1,
                        .window_rows = 1,
                        .window_tiles = 1};
    counting_tiles unit(byte_tile_shapes<16>(16));
    counting_tiles::counts = support::tile_counts{};
    sum_byte_tiles<16, 2, 2>(unit, at, epilogue);
    CHECK(counting_tiles::counts.loads == 4);  // sums that begin with zeros are not loaded
  }
  const auto half = count([](auto& u, auto& at, auto& e) { sum_byte_tiles<16, 1, 2>(u, at, e); });
  CHECK(half.products == 2 * 12);
  CHECK(half.loads == 3 * 12 + 2);
  const auto quarter =
      count([](auto& u, auto& at, auto& e) { sum_byte_tiles<16, 1, 1>(u, at, e); });
  CHECK(quarter.products == 12);
  CHECK(quarter.loads == 2 * 12 + 1);
  // All slices of the sums before, with the first steps and at most so many more as are needed.
  for (const auto& [slices, most] : {std::pair{5, 1}, {12, 1}, {13, 2}, {64, 6}}) {
    epilogue = {slices};
    count([](auto& u, auto& at, auto& e) { sum_byte_tiles<16, 2, 2>(u, at, e); });
    REQUIRE(epilogue.products.size() == static_cast<std::size_t>(slices));
    for (std::size_t i = 0; i < epilogue.products.size(); ++i)
      CHECK(epilogue.products[i] == 4 * (i / static_cast<std::size_t>(most) + 1));
  }
}
