// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/comm/simulated/failures.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Ten steps of 2 seconds, a checkpoint of 1 second after each third: 0 to 7, 14, 21, 24.
constexpr checkpointing thirds{.checkpoint_seconds = 1, .restart_seconds = 4, .interval = 3};
interrupted_run run_with(std::vector<double> at) {
  return simulate_failures(10, 2, thirds, failures_at{std::move(at)});
}

struct mean_and_error {
  double mean, standard_error;
};
mean_and_error simulated_seconds(std::int64_t steps, double step_seconds, const checkpointing& c,
                                 double mtbf, int ranks, int runs) {
  double sum = 0, squares = 0;
  for (int k = 0; k < runs; ++k) {
    const double s = simulate_failures(steps, step_seconds, c,
                                       exponential_failures{mtbf, ranks, std::uint64_t(k)})
                         .seconds;
    sum += s;
    squares += s * s;
  }
  const double mean = sum / runs;
  return {mean, std::sqrt((squares / runs - mean * mean) / (runs - 1))};
}

}  // namespace

TEST_CASE("failures: a run without any takes its steps and its checkpoints") {
  const interrupted_run run = run_with({});
  CHECK(run.seconds == 10 * 2 + 4);
  CHECK(run.checkpoints == 4);
  CHECK(run.lost == 0);
  CHECK(run.restarts == 0);
  CHECK(run.failures == 0);
  CHECK(run_with({24}).seconds == 24);  // the result has been written
}

TEST_CASE("failures: one at a given second loses what was done since the checkpoint") {
  // At 12 the second interval has taken 5 seconds: two steps and a half, again from 12 + 4 on.
  const interrupted_run middle = run_with({12});
  CHECK(middle.lost == 5);
  CHECK(middle.restarts == 4);
  CHECK(middle.failures == 1);
  CHECK(middle.seconds == 24 + 5 + 4);
  // Half a checkpoint loses the interval, a whole one nothing.
  CHECK(run_with({13.5}).lost == 6.5);
  CHECK(run_with({14}).lost == 0);
  CHECK(run_with({14}).seconds == 24 + 4);
}

TEST_CASE("failures: one in a restart repeats the restart") {
  // The restart of 12 fails at 13 and at 15 and ends at 19; the last interval, 33 to 36, at 35.
  const interrupted_run run = run_with({12, 13, 15, 35});
  CHECK(run.lost == 5 + 2);
  CHECK(run.restarts == 1 + 2 + 4 + 4);
  CHECK(run.failures == 4);
  CHECK(run.seconds == 24 + 7 + 11);
}

TEST_CASE("failures: what a run takes is its steps, checkpoints, losses and restarts") {
  const checkpointing c{.checkpoint_seconds = 3, .restart_seconds = 20, .interval = 70};
  const interrupted_run run = simulate_failures(10'000, 0.5, c, exponential_failures{1e5, 200});
  CHECK(run.failures > 5);
  CHECK(run.seconds ==
        doctest::Approx(10'000 * 0.5 + run.checkpoints + run.lost + run.restarts).epsilon(1e-12));
  CHECK(run.checkpoints == 143 * 3);  // 142 intervals of 70 steps and one of 60
}

TEST_CASE("failures: the mean of many runs is the closed expectation") {
  // 1,000 ranks that fail once in 500,000 s: once in 500 s, beside intervals of 100 and 400 s.
  for (const std::int64_t interval : {50, 200}) {
    CAPTURE(interval);
    const checkpointing c{.checkpoint_seconds = 10, .restart_seconds = 60, .interval = interval};
    const auto [mean, standard_error] = simulated_seconds(1'025, 2, c, 5e5, 1'000, 2'000);
    const double expected = expected_seconds(1'025, 2, c, 5e5, 1'000);
    CHECK(std::abs(mean - expected) < 4 * standard_error);
    CHECK(standard_error < 0.01 * expected);
  }
}

TEST_CASE("failures: Young's interval is near the best, half and twice of it are worse") {
  constexpr double step = 0.25, written = 15, mtbf = 3.6e7;
  constexpr int ranks = 4'096;
  // M = 8,789 s: sqrt(2 * 15 * 8789) = 513 s.
  const std::int64_t young = young_interval(step, written, mtbf, ranks);
  CHECK(young == 2'054);
  const auto seconds = [&](std::int64_t interval) {
    return expected_seconds(100'000, step, {written, 120, interval}, mtbf, ranks);
  };
  CHECK(seconds(young) < seconds(young / 2));
  CHECK(seconds(young) < seconds(2 * young));
  double best = seconds(young);
  for (std::int64_t n = young / 2; n < 2 * young; n += 10) best = std::min(best, seconds(n));
  // Young's formula is of the first order: it leaves terms of tau / M out, 6 % of what failures
  // and checkpoints cost, which is 6 % itself.
  CHECK(seconds(young) < best * 1.0036);
  CHECK(young_interval(1, 0, 1e6, 1) == 1);
}

TEST_CASE("failures: a run that cannot end and settings without sense are refused") {
  CHECK_THROWS_WITH_AS(
      simulate_failures(10, 100, {0, 0, 10}, exponential_failures{1'000, 1'000}),
      "simulate_failures: after a million failures no checkpoint of 10 steps is reached; make the "
      "interval shorter",
      error);
  CHECK_THROWS_AS(simulate_failures(10, 0, {}, failures_at{}), usage_error);
  CHECK_THROWS_AS(simulate_failures(10, 1, {-1, 0, 1}, failures_at{}), usage_error);
  CHECK_THROWS_AS(simulate_failures(10, 1, {0, 0, 0}, failures_at{}), usage_error);
  CHECK_THROWS_AS(expected_seconds(10, 1, {}, 0, 1), usage_error);
  CHECK_THROWS_AS(young_interval(1, 1, 0, 1), usage_error);
  const double infinity = std::numeric_limits<double>::infinity(), nan = infinity - infinity;
  const auto thrown = [](const auto& failures) {
    return error_message([&] { simulate_failures(1, 1, {}, failures); });
  };
  for (const double bad : {0.0, -1.0, infinity, nan}) {
    CHECK(contains(thrown(exponential_failures{bad}), "exponential_failures: mtbf is "));
    CHECK_THROWS_AS(simulate_failures(10, bad, {}, failures_at{}), usage_error);
  }
  CHECK(contains(thrown(exponential_failures{1, 0}), "exponential_failures: ranks is 0"));
  CHECK(contains(thrown(failures_at{{2, 1}}), "failures_at: seconds[1] is 1"));
  CHECK(contains(thrown(failures_at{{nan}}), "failures_at: seconds[0] is "));
  CHECK_THROWS_AS(simulate_failures(10, 1, {infinity, 0, 1}, failures_at{}), usage_error);
  CHECK_THROWS_AS(simulate_failures(10, 1, {0, nan, 1}, failures_at{}), usage_error);
}
