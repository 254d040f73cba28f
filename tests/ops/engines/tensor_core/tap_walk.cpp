// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/ops/engines/tensor_core/tap_walk.hpp>

#include "tests/ops/engines/tensor_core/tiled.hpp"

using namespace support;

namespace {

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

TEST_CASE("tap_walk: a walk through K finds each tap's pixel and weight, and those inside") {
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
