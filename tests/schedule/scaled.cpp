// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/schedule/constant.hpp>
#include <cordee/schedule/polynomial.hpp>
#include <cordee/schedule/scaled.hpp>
#include <cordee/schedule/warmup.hpp>

#include "tests/support/relative.hpp"

using namespace cordee;
using support::relative;

namespace {
constexpr double ulp = 0x1p-52;  // unit in the last place of 1
}  // namespace

TEST_CASE("scaled: the reference batch gives factor 1") {
  const polynomial s{.peak = 0.1, .epochs = 90};
  for (const double e : {0.0, 10.0, 89.5}) {
    CHECK(linear_scaled{s, 256, 256}(e) == s(e));
    CHECK(sqrt_scaled{s, 256, 256}(e) == s(e));
  }
}

TEST_CASE("scaled: sqrt_scaled twice is linear_scaled, for ratios above and below 1") {
  const constant s{.learning_rate = 0.1};
  for (const int batch : {32, 100, 256, 4096, 81920}) {
    CAPTURE(batch);
    const double twice = sqrt_scaled{sqrt_scaled{s, 256, batch}, 256, batch}(0);
    CHECK(twice == relative(linear_scaled{s, 256, batch}(0), 4 * ulp));
    CHECK(linear_scaled{s, 256, batch}(0) == relative(0.1 * batch / 256, 2 * ulp));
  }
}

// docs/mathematics.md, 7.6
TEST_CASE("sqrt_scaled with warm-up epochs times k is LEGW: the golden table") {
  constexpr std::array golden{std::array{2.0, 0.141421356237, 0.625}, std::array{4.0, 0.2, 1.25},
                              std::array{8.0, 0.282842712475, 2.5}, std::array{16.0, 0.4, 5.0},
                              std::array{32.0, 0.565685424949, 10.0}};
  for (const auto& [k, learning_rate, epochs] : golden) {
    CAPTURE(k);
    const auto batch = static_cast<std::int64_t>(1024 * k);
    const warmup s{0.3125 * k, sqrt_scaled{constant{0.1}, 1024, batch}};
    CHECK(s.epochs == epochs);
    CHECK(std::abs(s(epochs) - learning_rate) < 1e-12);
    CHECK(std::abs(s(epochs / 2) - learning_rate / 2) < 1e-12);
    // The number of updates of the warm-up does not change.
    CHECK(s.epochs / static_cast<double>(batch) == 0.3125 / 1024);
  }
}

TEST_CASE("scaled schedules refuse a missing reference batch or global batch") {
  CHECK_THROWS_AS((linear_scaled<constant>{constant{0.1}, 0, 512}(0)), usage_error);
  CHECK_THROWS_AS((sqrt_scaled<constant>{constant{0.1}, 0, 512}(0)), usage_error);
  CHECK_THROWS_AS((linear_scaled<constant>{constant{0.1}, 256, 0}(0)), usage_error);
}

TEST_CASE("scaled: the description has the factor and both batches") {
  CHECK(linear_scaled{constant{0.1}, 256, 8192}.describe() == "32 = 8192/256 times: constant 0.1");
  CHECK(sqrt_scaled{constant{0.1}, 256, 1024}.describe() ==
        "2 = sqrt(1024/256) times: constant 0.1");
}
