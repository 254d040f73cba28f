// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <type_traits>

#include <doctest/doctest.h>

#include <cordee/precision/fp32.hpp>
#include <cordee/precision/fp64.hpp>

using namespace cordee;

// Archetypes that lack one thing each.
namespace {
struct nameless : detail::precision::plain_precision<float> {};
struct integer_master : fp32 {
  using master = int;
};
struct fitless : fp32 {
  static void fit(float) {}
};
}  // namespace
static_assert(!Precision<nameless> && !Precision<integer_master> && !Precision<fitless> &&
              !Precision<float>);

TEST_CASE_TEMPLATE("plain_precision: encoding and decoding keep every bit", P, fp32, fp64) {
  using real = typename P::master;
  using limits = std::numeric_limits<real>;
  static_assert(std::is_same_v<typename P::storage, real> && !P::scales_loss);
  static_assert(std::is_empty_v<typename P::scaling>);
  for (const real x : {real{0}, real{-0.0}, real(0.1L), limits::max(), limits::denorm_min(),
                       limits::infinity(), -limits::infinity()}) {
    const real back = P::decode(P::encode(x, P::fit(x)), P::fit(real{1}));
    CHECK(back == x);
    CHECK(std::signbit(back) == std::signbit(x));
  }
  CHECK(std::isnan(P::decode(P::encode(limits::quiet_NaN(), {}), {})));
}
