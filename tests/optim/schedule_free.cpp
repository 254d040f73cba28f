// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors, through the trainer: tests/train/goldens_wrappers.cpp.
#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/optim/schedule_free.hpp>
#include <cordee/testing/optimizer_laws.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using detail::optim::average_share;

static_assert(OptimizerOn<schedule_free_sgd, float, cpu> &&
              OptimizerOn<schedule_free_adamw, double, cpu>);

TEST_CASE("schedule-free optimizers obey the optimizer laws") {
  CHECK(optimizer_laws(schedule_free_sgd{}) == "");
  CHECK(optimizer_laws(schedule_free_sgd{.momentum = 0, .weight_decay = 0.1, .warmup_steps = 3}) ==
        "");
  CHECK(optimizer_laws(schedule_free_adamw{.weight_decay = 0.1, .warmup_steps = 2}) == "");
}

TEST_CASE("schedule-free: the average's shares are squares of learning rates over their sum") {
  for (const double warmup : {0, 1, 2, 7, 100}) {
    double sum = 0;
    for (int t = 1; t <= 120; ++t) {
      const double lr = t < warmup ? t / warmup : 1;
      sum += lr * lr;
      CAPTURE(warmup);
      CAPTURE(t);
      CHECK(std::abs(average_share(t, warmup) - lr * lr / sum) < 1e-12);
    }
  }
}

TEST_CASE("schedule-free SGD without interpolation is SGD at z, and x the mean of its steps") {
  optimizer_fixture<schedule_free_sgd> fixture({.momentum = 0});
  fixture.reset(1);
  std::vector<double> z = fixture.weights(), mean(z.size());
  for (int t = 1; t <= 8; ++t) {
    const auto g = fixture.set_gradient(static_cast<std::uint64_t>(t)).gradient();
    fixture.step(0.25);
    const auto state = fixture.state();  // weights, z, x
    double error = 0;
    for (const segment& s : quadratic_table) {
      if (s.kind == kind::statistic) continue;
      for (std::size_t i = s.offset; i < s.end(); ++i) {
        z[i] -= 0.25 * g[i];
        mean[i] += (z[i] - mean[i]) / t;
        error = std::max({error, std::abs(state[i] - z[i]), std::abs(state[z.size() + i] - z[i]),
                          std::abs(state[2 * z.size() + i] - mean[i])});
      }
    }
    CHECK(error < t * 1e-15 * 16);  // some four roundings a step of numbers below 16
  }
}

TEST_CASE("schedule-free optimizers describe every option and refuse those out of range") {
  CHECK(schedule_free_sgd{.momentum = 0.5, .weight_decay = 3, .warmup_steps = 7, .decay_on = {}}
            .describe() ==
        "schedule_free_sgd, momentum 0.5, weight decay 3, warm-up of 7 steps; decays nothing; "
        "evaluated by the average of its steps");
  CHECK(schedule_free_adamw{.beta1 = 0.5,
                            .beta2 = 0.25,
                            .epsilon = 2,
                            .weight_decay = 3,
                            .warmup_steps = 7,
                            .decay_on = {}}
            .describe() ==
        "schedule_free_adamw, betas 0.5 and 0.25, epsilon 2, weight decay 3, warm-up of 7 steps; "
        "decays nothing; evaluated by the average of its steps");
  const auto refusal = [](const auto& o) { return support::error_message([&] { o.check(); }); };
  CHECK(refusal(schedule_free_sgd{.momentum = 1}) ==
        "schedule_free_sgd: momentum is 1, but must be in [0, 1)");
  CHECK(refusal(schedule_free_sgd{.weight_decay = -1}) != "");
  CHECK(refusal(schedule_free_sgd{.warmup_steps = -1})
            .starts_with("schedule_free_sgd: warmup_steps is negative"));
  CHECK(refusal(schedule_free_adamw{.beta1 = 1}) ==
        "schedule_free_adamw: beta1 is 1, but must be in [0, 1)");
  CHECK(refusal(schedule_free_adamw{.warmup_steps = -1})
            .starts_with("schedule_free_adamw: warmup_steps is negative"));
}
