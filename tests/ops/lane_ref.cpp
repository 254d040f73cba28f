// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/ops/lane_ref.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>

using namespace cordee;
using detail::ops::lane_ref;

TEST_CASE_TEMPLATE("lane_ref: reads and writes one number of a plane, converted", Real, float,
                   double) {
  const lane_ref<Real, 1> at{2};
  const double from[]{1, 2, 3.5};
  float to[]{0, 0, 0};
  CHECK(at(from) == Real{3.5});
  at.put(to, Real{-7});
  CHECK((to[0] == 0 && to[1] == 0 && to[2] == -7));
  CHECK(at.zero() == 0);
  CHECK(at.root(9) == 3);
}

TEST_CASE_TEMPLATE("lane_ref: clamped numbers have finite sums, NaN stays NaN", Real, float,
                   double) {
  using at = lane_ref<Real, 1>;
  using limits = std::numeric_limits<Real>;
  CHECK(at::clamped(3, 2) == 2);
  CHECK(at::clamped(-3, 2) == -2);
  CHECK(at::clamped(Real{0.5}, 2) == Real{0.5});
  CHECK(std::isnan(at::clamped(limits::quiet_NaN())));
  const Real largest = at::clamped(limits::infinity());
  CHECK(std::isfinite(largest + largest));
}

TEST_CASE_TEMPLATE("lane_ref: numbers that are at least a bound, which NaN becomes", Real, float,
                   double) {
  using at = lane_ref<Real, 1>;
  CHECK(at::at_least(3, 2) == 3);
  CHECK(at::at_least(-3, 2) == 2);
  CHECK(at::at_least(std::numeric_limits<Real>::quiet_NaN(), 2) == 2);
}

TEST_CASE_TEMPLATE("lane_ref: planes of 16 bits are widened, and rounded once", N, half, bfloat) {
  const lane_ref<float, 1> at{1};
  N plane[]{N{}, N::nearest(1.5f), N{}};
  CHECK(at(plane) == 1.5f);
  at.put(plane, 1.001f);
  CHECK(plane[1].bits == N::nearest(1.001f).bits);
  CHECK((plane[0].bits == 0 && plane[2].bits == 0));
}
