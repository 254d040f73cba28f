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

/// Walks from number `start` of K on, by steps of 32 numbers.
template <bool OneTap>
void check_walk(const detail::ops::implicit_gemm& g, int start) {
  detail::ops::tap_walk<OneTap> walk(g);
  const int taps = g.down.taps * g.across.taps;
  const auto all = walk.mask_of(0, g.down.taps, 0, g.across.taps),
             inner = walk.mask_of(1, g.down.taps, -3, g.across.taps - 1);
  auto distance = walk.advance(start);
  for (int k = start; k < g.depth() + 40; k += 32) {
    const int tap = k / g.channels, c = k % g.channels;
    const int u = tap / g.across.taps, v = tap % g.across.taps;
    CHECK(walk.is_in(all) == (tap < taps));
    CHECK(!walk.is_in(0));
    if (tap < taps) {
      CHECK(walk.channel() == c);
      CHECK(distance.a ==
            (u * g.down.direction * g.across.in + v * g.across.direction) * g.channels + c);
      CHECK(distance.b ==
            (u * g.down.tap_step * g.window + v * g.across.tap_step) * g.channels + c);
      CHECK(walk.is_in(inner) == (u >= 1 && v < g.across.taps - 1));
    }
    const auto by = walk.advance(32);
    distance = {distance.a + by.a, distance.b + by.b};
  }
}

}  // namespace

TEST_CASE("correlation: a walk through K finds each tap's pixel and weight, and those inside") {
  for (const convolution_problem p : many_shapes) {
    for (int remainder = -1; remainder < p.stride * p.stride; ++remainder) {
      const auto g = remainder < 0 ? detail::ops::fprop_gemm<half>(p, 1)
                                   : detail::ops::dgrad_gemm<half>(p, 1, remainder / p.stride,
                                                                   remainder % p.stride);
      if (g.depth() == 0) continue;
      INFO(describe(p), ", remainder ", remainder);
      for (const int start : {0, 8, 24}) check_walk<false>(g, start);
      if (g.has_one_tap()) check_walk<true>(g, 8);
    }
  }
}

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

TEST_CASE("correlation: the widest window that a mask of taps holds, and one beyond") {
  tiled_fixture<> fixture;
  fixture.p = {{1, 16, 15}, 2, detail::ops::max_taps, 1, 7};
  fixture.samples = 1;
  fixture.x = short_numbers<half>(fixture.p.in.size(), 1);
  fixture.w = short_numbers<half>(fixture.p.weights(), 2);
  auto y = fixture.output();
  fixture.fprop(detail::ops::identity_prologue{}, detail::ops::store_epilogue<half>{y.data()});
  CHECK(fixture.numbers(y) == as<half>(fixture.exact_output(fixture.x)));

  detail::ops::expect_supported(detail::ops::fprop_gemm<half>(fixture.p, 1));
  fixture.p.window = detail::ops::max_taps + 1;
  CHECK_THROWS_AS(detail::ops::expect_supported(detail::ops::fprop_gemm<half>(fixture.p, 1)),
                  usage_error);
}
