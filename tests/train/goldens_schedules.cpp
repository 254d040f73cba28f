// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every schedule that is a function of the epoch, through the trainer: golden weights of
// tests/support/schedule_run_goldens.py, and settings that are refused when a trainer is
// constructed. Adaptive ones: fit_schedule.cpp, decided_batch.cpp.
#include <array>
#include <cmath>
#include <functional>
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/adaptive_batch.hpp>
#include <cordee/schedule/akiba_slow_start.hpp>
#include <cordee/schedule/auto_wu.hpp>
#include <cordee/schedule/batch_scaled.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/schedule/cosine.hpp>
#include <cordee/schedule/exponential.hpp>
#include <cordee/schedule/legw.hpp>
#include <cordee/schedule/mlperf_poly2.hpp>
#include <cordee/schedule/multistep.hpp>
#include <cordee/schedule/one_cycle.hpp>
#include <cordee/schedule/plateau.hpp>
#include <cordee/schedule/polynomial.hpp>
#include <cordee/schedule/scaled.hpp>
#include <cordee/schedule/then.hpp>
#include <cordee/schedule/warmup.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;
using cordee::detail::schedule::start_learning_rate;

namespace {

using any_schedule = std::function<double(double)>;  // so that one trainer is compiled for all

/// Four epochs of ten updates, on 1, 3 and 4 ranks.
void reaches(const any_schedule& schedule, const std::array<double, 3>& expected) {
  for (const int ranks : {1, 3, 4}) {
    CAPTURE(ranks);
    const auto by_rank = on_ranks(ranks, [&](threads comm) {
      quadratic<fp64> model{.shift = 0.25 * (comm.rank() - 0.5 * (ranks - 1))};
      trainer run{model, sgd{.momentum = 0.9}, schedule, ring{comm}};
      toy_loader feed{.rank_count = ranks};
      run.fit(feed, 4);
      return std::array{numbers(run.weights(), 0)[0], numbers(run.weights(), 0)[3],
                        numbers(run.weights(), 2)[1]};
    });
    for (const auto& weights : by_rank)
      for (std::size_t i = 0; i < 3; ++i) CHECK(close(weights[i], expected[i], 1e-10));
  }
}

/// Whether construction is refused with these words, with one rank and with three.
bool refused(const any_schedule& schedule, const std::string& words) {
  const auto make = [&](const auto& reducer) {
    quadratic<fp64> model;
    const trainer run{model, sgd{}, schedule, reducer};
  };
  const std::string one = error_message([&] { make(solo{}); });
  const std::string three =
      error_message([&] { threads::launch(3, [&](threads comm) { make(ring{comm}); }); });
  CAPTURE(one);
  CAPTURE(three);
  return one.find(words) != std::string::npos && three.find(words) != std::string::npos;
}

const multistep steps{.learning_rate = 0.05, .milestones = {1, 3}};
const cosine low{.peak = 0.01, .epochs = 4};

}  // namespace

TEST_CASE("every schedule of one shape reaches its golden weights") {
  reaches(constant{0.02}, {0.4049715823097, -0.1848108660255, -1.530288660864});
  reaches(steps, {0.3799251132794, -0.1941559929709, -1.702913922761});
  reaches(polynomial{.peak = 0.05, .epochs = 4, .power = 1.5, .end = 0.001},
          {0.3951678885607, -0.2141382885229, -1.568195872645});
  reaches(cosine{.peak = 0.05, .epochs = 3.5, .floor = 0.002},
          {0.3963699936654, -0.2102518138374, -1.535688714571});
  reaches(exponential{.learning_rate = 0.05, .factor = 0.6},
          {0.4005761779108, -0.1920762927297, -1.560014514589});
  reaches(one_cycle{.peak = 0.06, .epochs = 4, .update = 0.1},
          {0.4215650229403, -0.1391749225496, -1.402755319652});
  reaches(mlperf_poly2{.peak = 0.06, .warmup_epochs = 1, .epochs = 4, .update = 0.1},
          {0.4024599101248, -0.2144310494127, -1.476661612367});
  reaches(akiba_slow_start{}, {0.389801708616, -0.1651911985033, -1.441902173074});
}

TEST_CASE("every schedule around another one reaches its golden weights") {
  reaches(warmup{2, steps, start_learning_rate{0.01}},
          {0.4111007211208, -0.2062195347287, -1.846128512997});
  reaches(warmup_then{2, polynomial{.peak = 0.05, .epochs = 4}},
          {0.4168933844373, -0.1487244975122, -1.417059204467});
  reaches(linear_scaled{low, 32, 256}, {0.4120118357825, -0.213156966703, -1.419162634366});
  reaches(sqrt_scaled{low, 32, 256}, {0.3819308105786, -0.2099710425738, -1.653000792345});
  reaches(scaled{steps, 0.4}, {0.4170734292214, -0.2425133446842, -1.86385303794});
  reaches(legw{0.25, polynomial{.peak = 0.05, .epochs = 4}, 64, 256},
          {0.3951541023089, -0.2418930877558, -1.499725162147});
  reaches(then{steps, 1.5, cosine{.peak = 0.03, .epochs = 2}},
          {0.3996996563298, -0.2208991740562, -1.576655310103});
  reaches(batch_scaled{constant{0.02}, {{{1, 2}, {2.5, 3}}}, 0.5},
          {0.4156286580994, -0.1821532484936, -1.439854262682});
}

TEST_CASE("settings without sense are refused when the trainer is constructed") {
  for (const double learning_rate : {-0.1, HUGE_VAL, std::nan("")}) {
    const std::string rate = learning_rate < 0 ? "is -0.1: it must be 0" : "give a finite number";
    CHECK(refused(constant{learning_rate}, rate));
    CHECK(refused(multistep{.learning_rate = learning_rate}, rate));
    CHECK(refused(exponential{.learning_rate = learning_rate}, rate));
    CHECK(refused(akiba_slow_start{.learning_rate = learning_rate}, rate));
    CHECK(refused(warmup{1, low, start_learning_rate{learning_rate}}, rate));
  }
  CHECK(refused(multistep{.milestones = {1}, .factor = -1}, "multistep: .factor is -1"));
  CHECK(refused(cosine{}, "cosine: set .epochs"));
  CHECK(refused(cosine{.epochs = 4, .floor = -1}, "cosine: .peak and .floor must be"));
  CHECK(refused(polynomial{}, "polynomial: set .epochs"));
  CHECK(refused(polynomial{.epochs = 4, .end = -1}, "polynomial: .peak, .end and .power"));
  CHECK(refused(polynomial{.epochs = 4, .power = -1}, "polynomial: .peak, .end and .power"));
  CHECK(refused(exponential{.factor = 1.1}, "exponential: .factor must be"));
  CHECK(refused(one_cycle{}, "one_cycle: set .epochs"));
  CHECK(refused(mlperf_poly2{}, "mlperf_poly2: set .epochs"));
  CHECK(refused(mlperf_poly2{.warmup_epochs = 1, .epochs = 4, .end = -1},
                "mlperf_poly2: .peak and .end must be"));
  CHECK(refused(warmup{-1, low}, "the number of warm-up epochs is negative"));
  CHECK(refused(warmup_then{-1, low}, "the number of warm-up epochs is negative"));
  CHECK(refused(linear_scaled{low, 0, 256}, "the reference batch must be positive"));
  CHECK(refused(sqrt_scaled{low, 32, 0}, "the global batch must be positive"));
  CHECK(refused(scaled{low, 0}, "scaled: .factor must be positive"));
  CHECK(refused(legw{1, low, 32, 256}, "do not fit the 4 epochs"));
  CHECK(refused(then{low, 0, steps}, "then: the first schedule must last longer"));
  CHECK(refused(batch_scaled{low, {}, 2}, "batch_scaled: .exponent must be"));
  CHECK(refused(training_plateau{.factor = 1}, "plateau: .factor must be"));
  CHECK(refused(auto_wu{}, "auto_wu: set .epochs"));
  CHECK(refused(adaptive_batch{low, 0.0}, "adaptive_batch: .share must be above 0"));
}
