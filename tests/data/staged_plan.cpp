// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>

#include <doctest/doctest.h>

#include <cordee/data/staged_plan.hpp>

#include "tests/support/numbered.hpp"

using namespace cordee;
using namespace cordee::detail::data;
using namespace support;

namespace {

loader_options options(std::int64_t batch, last_batch end, const batch_schedule& stages) {
  return {.global_batch = batch, .last_batch = end, .batch_schedule = stages};
}

}  // namespace

TEST_CASE("staged_plan: without stages it is its batch_plan") {
  for (const last_batch end : last_batch_modes)
    for (const std::int64_t batch : {1, 6, 7, 50}) {
      const staged_plan plan(50, options(batch, end, {}), 1);
      const batch_plan same{50, batch, end};
      for (const double epochs : {0.0, 0.1, 1.0, 2.5, 3.0})
        CHECK(plan.steps(epochs) == same.steps(epochs));
      for (std::int64_t k = 0; k < 40; ++k) {
        CHECK(plan.epoch(k) == same.epoch(k));
        for (std::int64_t j = 0; j < batch; ++j) {
          CHECK(plan.sample(k, j).epoch == same.sample(k, j).epoch);
          CHECK(plan.sample(k, j).index == same.sample(k, j).index);
        }
      }
    }
}

TEST_CASE("staged_plan: each stage begins with the first update at its epoch or later") {
  const batch_schedule stages{{{1, 2}, {2.5, 3}, {3.1, 1}, {3.11, 4}}};
  for (const std::int64_t batch : {1, 6, 7, 13})
    for (const std::int64_t samples : {22, 50, 97}) {
      CAPTURE(batch);
      CAPTURE(samples);
      const staged_plan plan(samples, options(batch, last_batch::carry, stages), 1);
      std::int64_t seen = 0;  // samples
      for (std::int64_t k = 0; k < 200; ++k) {
        CHECK(plan.epoch(k) == static_cast<double>(seen) / static_cast<double>(samples));
        // Which is what a schedule of the learning rate sees.
        CHECK(plan.at(k).factor == stages(plan.epoch(k)));
        CHECK(plan.at(k).plan.global_batch == batch * plan.at(k).factor);
        for (std::int64_t j = 0; j < plan.at(k).plan.global_batch; ++j, ++seen) {
          CHECK(plan.sample(k, j).epoch == seen / samples);
          CHECK(plan.sample(k, j).index == seen % samples);
        }
      }
    }
}

// Far from the start, where a difference of epochs has lost digits.
TEST_CASE(
    "staged_plan: a stage at an update's very epoch begins with it, one just after with the next") {
  for (const std::int64_t samples : {22, 50, 97})
    for (const double begin : {1e3, 1e5}) {
      const staged_plan two(samples, options(1, last_batch::carry, {{{begin, 2}}}), 1);
      for (std::int64_t k = two.steps(begin) + 1; k < two.steps(begin + 2); ++k) {
        CAPTURE(samples);
        CAPTURE(k);
        const double epoch = two.epoch(k), after = std::nextafter(epoch, 2 * begin);
        const staged_plan at(samples, options(1, last_batch::carry, {{{begin, 2}, {epoch, 3}}}), 1),
            late(samples, options(1, last_batch::carry, {{{begin, 2}, {after, 3}}}), 1);
        CHECK(at.at(k - 1).factor == 2);
        CHECK(at.at(k).factor == 3);
        CHECK(late.at(k).factor == 2);
        CHECK(late.at(k + 1).factor == 3);
      }
    }
}

TEST_CASE(
    "staged_plan: whole epochs are cut or padded in each stage as a loader of its batch does") {
  for (const last_batch end : {last_batch::drop, last_batch::pad}) {
    const staged_plan plan(50, options(7, end, {{{1, 2}, {3, 5}}}), 1);
    std::int64_t k = 0;
    for (std::int64_t epoch = 0; epoch < 6; ++epoch) {
      const batch_plan same{50, epoch < 1 ? 7 : epoch < 3 ? 14 : 35, end};
      for (std::int64_t i = 0; i < same.steps_per_epoch(); ++i, ++k) {
        CHECK(std::abs(plan.epoch(k) - static_cast<double>(epoch) - same.epoch(i)) < 1e-14);
        for (std::int64_t j = 0; j < same.global_batch; ++j) {
          CHECK(plan.sample(k, j).epoch == epoch);
          CHECK(plan.sample(k, j).index == same.sample(i, j).index);
        }
      }
      CHECK(plan.steps(static_cast<double>(epoch) + 1) == k);
    }
  }
}

TEST_CASE("staged_plan: as many updates as reach the epochs") {
  const batch_schedule stages{{{1, 2}, {2.5, 3}}};
  for (const std::int64_t batch : {1, 6, 7, 13}) {
    const staged_plan plan(50, options(batch, last_batch::carry, stages), 1);
    for (int tenths = 0; tenths < 60; ++tenths) {
      const double epochs = tenths / 10.0;
      const std::int64_t n = plan.steps(epochs);
      CHECK(plan.epoch(n) >= epochs - 1e-12);
      if (n > 0) CHECK(plan.epoch(n - 1) < epochs);
    }
  }
}

TEST_CASE("staged_plan: describes the stages, and refuses what makes no update") {
  const staged_plan plan(50, options(10, last_batch::carry, {{{1, 2}, {2.5, 3}}}), 1);
  CHECK(
      plan.describe(false) ==
      "a global batch of 20 from update 5 (epoch 1) on, a global batch of 30 from update 9 (epoch "
      "2.6) on, in more micro-batches; ");
  CHECK(staged_plan(50, options(10, last_batch::carry, {}), 1).describe(true).empty());
  CHECK(plan.largest_factor() == 3);
  CHECK(plan.most_steps() == batch_plan{50, 30, last_batch::carry}.most_steps());
  const staged_plan large(50, options(10, last_batch::carry, {{{1, 100'000'000}}}), 1);
  CHECK(large.most_steps() == batch_plan{50, 1'000'000'000, last_batch::carry}.most_steps());
  CHECK(large.most_steps() < large.first().most_steps());
  CHECK_THROWS_AS(staged_plan(50, options(10, last_batch::pad, {{{1.5, 2}}}), 1), usage_error);
  CHECK_THROWS_AS(staged_plan(50, options(10, last_batch::drop, {{{1, 6}}}), 1), error);
  CHECK_THROWS_AS(staged_plan(50, options(10, last_batch::carry, {{{1, 1 << 30}}}), 1),
                  usage_error);
  CHECK_THROWS_AS(staged_plan(50, options(10, last_batch::carry, {{{1, 0}}}), 1), usage_error);
  CHECK_THROWS_AS(staged_plan(0, options(10, last_batch::carry, {}), 1), error);
}
