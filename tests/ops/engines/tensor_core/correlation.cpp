// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/ops/engines/tensor_core/correlation.hpp>

#include "tests/ops/engines/tensor_core/tiled.hpp"

using namespace support;

namespace {

template <class Tile>
std::vector<double> output_of(std::uint64_t seed = 1) {
  const tiled_fixture<half, Tile> fixture{.at = device_fixture{emulated{seed}}};
  auto y = fixture.output();
  fixture.fprop(detail::ops::identity_prologue{}, detail::ops::store_epilogue<half>{y.data()});
  return fixture.numbers(y);
}

}  // namespace

TEST_CASE("correlation: the result's bits depend neither on the tile nor on the order of threads") {
  const tiled_fixture<> fixture;
  const auto wanted = as<half>(fixture.exact_output(fixture.x));
  CHECK(output_of<detail::ops::tensor_core_tile<32, 4>>() == wanted);
  CHECK(output_of<detail::ops::tensor_core_tile<32, 4>>(2) == wanted);
  CHECK(output_of<detail::ops::tensor_core_tile<64, 2>>() == wanted);
  CHECK(output_of<detail::ops::tensor_core_tile<128, 2>>() == wanted);
}

TEST_CASE("correlation: an accumulating epilogue rounds once") {
  const tiled_fixture<> fixture;
  const auto before = short_numbers<half>(size(fixture.samples) * fixture.p.out().size(), 3);
  auto wanted = fixture.exact_output(fixture.x);
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += before[i];
  auto y = fixture.in_memory(before, fixture.p.out());
  fixture.fprop(detail::ops::identity_prologue{},
                detail::ops::store_epilogue<half>{y.data(), write_mode::add});
  CHECK(fixture.numbers(y) == as<half>(wanted));
}
