// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Runs whose batch it decides: tests/train/step/decided_batch.cpp.
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/schedule/adaptive_batch.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/schedule/polynomial.hpp>
#include <cordee/testing/schedule_laws.hpp>

using namespace cordee;
using namespace cordee::detail::schedule;

static_assert(DecidesBatch<adaptive_batch<constant>> && !DecidesBatch<constant>);

namespace {

/// An epoch that ends with the update at `epoch`.
observation ended(double epoch, double noise_batches) {
  return {.epoch = epoch, .loss = 1, .epoch_loss = 1, .noise_batches = noise_batches};
}

}  // namespace

TEST_CASE("adaptive_batch obeys the laws of schedules") {
  CHECK(schedule_laws(adaptive_batch{polynomial{.peak = 0.1, .epochs = 90}}, 90) == "");
}

TEST_CASE("adaptive_batch doubles after epochs, within a share of the noise scale and a largest") {
  adaptive_batch s{constant{0.1}, 0.5, 8, 1.0};
  s.observe({.epoch = 0.5, .loss = 1, .noise_batches = 1e9});  // no epoch has ended
  s.observe(ended(0.9, std::numeric_limits<double>::quiet_NaN()));
  s.observe(ended(1.9, 3.9));  // 2 > 0.5 * 3.9
  CHECK(s.batch_decided().describe() == "constant");
  s.observe(ended(2.9, 4));
  s.observe(ended(3.9, 7.9));
  s.observe(ended(4.9, 1e9));  // twofold at most
  s.observe(ended(5.0, 1e9));  // an update of whole epochs
  s.observe(ended(6.9, 1e9));
  CHECK(s.batch_decided().describe() ==
        "times 2 from epoch 3, times 4 from epoch 5, times 8 from epoch 6");
  CHECK(s(2.99) == 0.1);
  CHECK(s(3) == 0.2);
  CHECK(s(5.5) == 0.4);
  CHECK(s(100) == 0.8);
}

TEST_CASE("adaptive_batch: the learning rate follows by its exponent, the state is the stages") {
  adaptive_batch root{constant{0.1}, 1, 16, 0.5}, none{constant{0.1}, 1, 16, 0};
  root.state() = none.state() = {3, 4};
  CHECK(root(3) == 0.2);
  CHECK(none(3) == 0.1);
  root.state() = {3};
  CHECK_THROWS_AS(root(0), usage_error);
  root.state() = {3, 4, 2, 8};
  CHECK_THROWS_AS(root(0), usage_error);
}

TEST_CASE("adaptive_batch ends where it is 0, describes itself and refuses nonsense") {
  CHECK(end_epoch_of(adaptive_batch{polynomial{.peak = 0.1, .epochs = 90}}) == 90);
  CHECK(
      std::isinf(end_epoch_of(adaptive_batch{polynomial{.peak = 0.1, .epochs = 9, .end = 0.01}})));
  CHECK(adaptive_batch{constant{0.1}, 0.5, 8}.describe() ==
        "times (B/B0)^1, where B doubles after an epoch as long as it stays within 0.5 times the "
        "gradient noise scale and 8 B0: constant 0.1");
  CHECK_THROWS_AS((adaptive_batch{constant{0.1}, 0.0}(0)), usage_error);
  CHECK_THROWS_AS((adaptive_batch{constant{0.1}, 1, 0}(0)), usage_error);
  CHECK_THROWS_AS((adaptive_batch{constant{0.1}, 1, 8, 2.0}(0)), usage_error);
}
