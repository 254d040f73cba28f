// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/schedule/batch_scaled.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/schedule/multistep.hpp>
#include <cordee/schedule/polynomial.hpp>

#include "tests/support/relative.hpp"

using namespace cordee;
using namespace cordee::detail::schedule;
using support::relative;

TEST_CASE("batch_scaled: the linear rule, the square root, and a batch in place of a decay") {
  const batch_schedule batch{{{60, 5}, {120, 25}}};
  const polynomial inner{.peak = 0.1, .epochs = 160};
  for (double e = 0; e < 170; e += 7.3) {
    const double b = e < 60 ? 1 : e < 120 ? 5 : 25;
    CHECK(batch_scaled{inner, batch}(e) == b * inner(e));
    CHECK(batch_scaled{inner, batch, 0.5}(e) == relative(std::sqrt(b) * inner(e), 0x1p-51));
    CHECK(batch_scaled{inner, batch, 0}(e) == inner(e));
    // Smith et al.: lr N/B (their noise scale) is that of a decay by 1/5 with a constant batch.
    const multistep decay{.learning_rate = 0.1, .milestones = {60, 120}, .factor = 0.2};
    CHECK(batch_scaled{constant{0.1}, batch, 0}(e) / b == relative(decay(e), 0x1p-50));
  }
}

TEST_CASE(
    "batch_scaled: a batch that grows has the noise scale of a decay, golden of Smith et al.") {
  // g = lr N / (B (1 - momentum)) of N = 50,000, momentum 0.9, the first batch 128.
  const auto noise = [](double learning_rate, double batch) {
    return learning_rate * 50'000 / (batch * (1 - 0.9));
  };
  const batch_schedule batch{{{60, 5}}};
  const batch_scaled grown{constant{0.1}, batch, 0};
  CHECK(noise(grown(59), 128.0 * batch(59)) == relative(390.625, 1e-14));
  CHECK(noise(grown(60), 128.0 * batch(60)) == relative(78.125, 1e-14));
  CHECK(noise(multistep{.learning_rate = 0.1, .milestones = {60}, .factor = 0.2}(60), 128) ==
        relative(78.125, 1e-14));
}

TEST_CASE("batch_scaled: describes itself, ends with both, and refuses other exponents") {
  const batch_scaled s{constant{0.1}, batch_schedule{{{30, 2}}}, 0.5};
  CHECK(s.describe() == "times (B/B0)^0.5, where B is times 2 from epoch 30: constant 0.1");
  CHECK(end_epoch_of(batch_scaled{polynomial{.epochs = 20}, batch_schedule{{{30, 2}}}}) == 30);
  CHECK(end_epoch_of(batch_scaled{polynomial{.epochs = 90}, batch_schedule{{{30, 2}}}}) == 90);
  CHECK_THROWS_AS((batch_scaled{constant{0.1}, {}, -1}(0)), usage_error);
  CHECK_THROWS_AS((batch_scaled{constant{0.1}, {}, 1.5}(0)), usage_error);
  CHECK_THROWS_AS((batch_scaled{constant{0.1}, batch_schedule{{{30, 0}}}}(0)), usage_error);
}
