// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The laws hold for every schedule, and each law detects its fault.
#include <limits>

#include <doctest/doctest.h>

#include <cordee/schedule/akiba_slow_start.hpp>
#include <cordee/schedule/auto_wu.hpp>
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
#include <cordee/testing/schedule_laws.hpp>

using namespace cordee;
using namespace cordee::detail::schedule;

namespace {

/// Halves the learning rate when the loss grows.
struct halving {
  double learning_rate = 1, before = std::numeric_limits<double>::infinity();
  double operator()(double) const { return learning_rate; }
  void observe(const observation& seen) {
    if (seen.loss > before) learning_rate /= 2;
    before = seen.loss;
  }
};

/// Grows with the loss until it is infinite.
struct diverging {
  double learning_rate = 1;
  double operator()(double) const { return learning_rate; }
  void observe(const observation& seen) { learning_rate *= seen.loss; }
};

bool contains(const std::string& violation, const char* part) {
  CAPTURE(violation);
  return violation.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("schedule_laws hold for all schedules") {
  const multistep steps{.learning_rate = 0.1, .milestones = {30, 60, 80}};
  const polynomial poly{.peak = 6.4, .epochs = 90, .end = 1e-4};
  const cosine wave{.peak = 3.2, .epochs = 90};
  for (const double epochs : {1.0, 89.5, 90.0, 100.0}) {
    CAPTURE(epochs);
    CHECK(schedule_laws(constant{.learning_rate = 0.1}, epochs) == "");
    CHECK(schedule_laws(steps, epochs) == "");
    CHECK(schedule_laws(poly, epochs) == "");
    CHECK(schedule_laws(polynomial{.peak = 1, .epochs = 90, .power = 0.5}, epochs) == "");
    CHECK(schedule_laws(wave, epochs) == "");
    CHECK(schedule_laws(warmup{5, steps, start_learning_rate{0.1}}, epochs) == "");
    CHECK(schedule_laws(warmup_then{5, poly}, epochs) == "");
    CHECK(schedule_laws(linear_scaled{wave, 256, 8192}, epochs) == "");
    CHECK(schedule_laws(sqrt_scaled{wave, 256, 100}, epochs) == "");
    CHECK(schedule_laws(legw{0.3125, poly, 512, 32768}, epochs) == "");
    CHECK(schedule_laws(exponential{.learning_rate = 0.8}, epochs) == "");
    CHECK(schedule_laws(one_cycle{.peak = 2, .epochs = 90, .update = 0.01}, epochs) == "");
    CHECK(schedule_laws(one_cycle{.peak = 2, .epochs = 90, .three_phase = true}, epochs) == "");
    CHECK(schedule_laws(mlperf_poly2{.peak = 9, .warmup_epochs = 5, .epochs = 90}, epochs) == "");
    CHECK(schedule_laws(akiba_slow_start{}, epochs) == "");
    CHECK(schedule_laws(then{wave, 10, scaled{poly, 0.5}}, epochs) == "");
    CHECK(schedule_laws([](double epoch) { return 1 / (1 + epoch); }, epochs) == "");
  }
}

TEST_CASE("schedule_laws hold for adaptive schedules, also wrapped ones") {
  CHECK(schedule_laws(halving{}, 30) == "");
  CHECK(schedule_laws(warmup{5, halving{}}, 30) == "");
  CHECK(schedule_laws(warmup_then{5, halving{}}, 30) == "");
  CHECK(schedule_laws(linear_scaled{halving{}, 256, 512}, 30) == "");
  CHECK(schedule_laws(legw{0.5, halving{}, 256, 512}, 30) == "");
  CHECK(schedule_laws(then{halving{}, 10, constant{0.1}}, 30) == "");
  CHECK(schedule_laws(auto_wu{.epochs = 30}, 30) == "");
  CHECK(schedule_laws(plateau{.patience = 2}, 30) == "");
  CHECK(schedule_laws(scaled{training_plateau{.patience = 0, .cooldown = 1}, 2}, 30) == "");
}

TEST_CASE("each law of schedules detects its fault") {
  CHECK(contains(laws::gives_finite_learning_rates([](double e) { return 1 - e; }, 2),
                 "the learning rate is -"));
  CHECK(contains(laws::gives_finite_learning_rates([](double e) { return 1 / e; }, 2),
                 "at epoch 0 the learning rate is inf"));
  // Negative only just before the end of an epoch.
  CHECK(contains(laws::gives_finite_learning_rates(
                     [](double e) { return e > 0.9999999 && e < 1 ? -1.0 : 1.0; }, 3),
                 "at epoch 1 the learning rate is -1"));
  int calls = 0;
  CHECK(
      contains(laws::depends_on_epoch_alone([&](double) { return ++calls; }, 2), "a second call"));
  CHECK(laws::is_positive_somewhere(constant{.learning_rate = 0}, 2) ==
        "the learning rate is zero in the whole run");
  CHECK(contains(laws::observes_deterministically(diverging{}, 30), "the learning rate at epoch"));
  int observations = 0;
  struct shared {
    int* count;
    double learning_rate = 1;
    double operator()(double) const { return learning_rate; }
    void observe(const observation&) { learning_rate = ++*count; }
  };
  CHECK(contains(laws::observes_deterministically(shared{&observations}, 30), "two copies"));
}

TEST_CASE("schedule_laws returns the violations of all laws, one per line") {
  const std::string violations = schedule_laws([](double) { return -1; }, 2);
  CHECK(contains(violations, "at epoch 0 the learning rate is -1\n"));
  CHECK(contains(violations, "the learning rate is zero in the whole run\n"));
  struct undescribed {
    double operator()(double) const { return 1; }
    std::string describe() const { return ""; }
  };
  CHECK(schedule_laws(undescribed{}, 2) == "the description is empty\n");
}
