// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every schedule obeys the laws, and every law finds the schedule that breaks it.
#include <limits>

#include <doctest/doctest.h>

#include <cordee/schedule/constant.hpp>
#include <cordee/schedule/cosine.hpp>
#include <cordee/schedule/legw.hpp>
#include <cordee/schedule/multistep.hpp>
#include <cordee/schedule/polynomial.hpp>
#include <cordee/schedule/scaled.hpp>
#include <cordee/schedule/warmup.hpp>
#include <cordee/testing/schedule_laws.hpp>

using namespace cordee;

namespace {

/// Halves its rate when the loss grows.
struct wary {
  double rate = 1, before = std::numeric_limits<double>::infinity();
  double operator()(double) const { return rate; }
  void observe(double, double loss) {
    if (loss > before) rate /= 2;
    before = loss;
  }
};

/// Grows with the loss until it is no number.
struct rash {
  double rate = 1;
  double operator()(double) const { return rate; }
  void observe(double, double loss) { rate *= loss; }
};

bool names(const std::string& complaint, const char* part) {
  CAPTURE(complaint);
  return complaint.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the schedules obey the laws of schedules") {
  const multistep steps{.rate = 0.1, .milestones = {30, 60, 80}};
  const polynomial poly{.peak = 6.4, .epochs = 90, .end = 1e-4};
  const cosine wave{.peak = 3.2, .epochs = 90};
  for (const double epochs : {1.0, 89.5, 90.0, 100.0}) {
    CAPTURE(epochs);
    schedule_laws(constant{.rate = 0.1}, epochs);
    schedule_laws(steps, epochs);
    schedule_laws(poly, epochs);
    schedule_laws(polynomial{.peak = 1, .epochs = 90, .power = 0.5}, epochs);
    schedule_laws(wave, epochs);
    schedule_laws(warmup{5, steps, from_rate{0.1}}, epochs);
    schedule_laws(warmup_then{5, poly}, epochs);
    schedule_laws(linear_scaled{wave, 256, 8192}, epochs);
    schedule_laws(sqrt_scaled{wave, 256, 100}, epochs);
    schedule_laws(legw{0.3125, poly, 512, 32768}, epochs);
    schedule_laws([](double epoch) { return 1 / (1 + epoch); }, epochs);
  }
}

TEST_CASE("adaptive schedules obey the laws of schedules, whatever is around them") {
  schedule_laws(wary{}, 30);
  schedule_laws(warmup{5, wary{}}, 30);
  schedule_laws(warmup_then{5, wary{}}, 30);
  schedule_laws(linear_scaled{wary{}, 256, 512}, 30);
  schedule_laws(legw{0.5, wary{}, 256, 512}, 30);
}

TEST_CASE("each law of schedules finds the fault that it is there for") {
  CHECK(names(laws::gives_rates([](double e) { return 1 - e; }, 2), "the rate is -"));
  CHECK(names(laws::gives_rates([](double e) { return 1 / e; }, 2), "at epoch 0 the rate is inf"));
  // Negative just before an epoch ends, where no coarse grid looks.
  CHECK(names(laws::gives_rates([](double e) { return e > 0.9999999 && e < 1 ? -1.0 : 1.0; }, 3),
              "at epoch 1 the rate is -1"));
  int asked = 0;
  CHECK(names(laws::depends_on_the_epoch_alone([&](double) { return ++asked; }, 2), "asked again"));
  CHECK(laws::moves_somewhere(constant{.rate = 0}, 2) == "the rate is zero throughout");
  CHECK(names(laws::observes_alike(rash{}, 30), "the rate at epoch"));
  int told = 0;
  struct shared {
    int* count;
    double rate = 1;
    double operator()(double) const { return rate; }
    void observe(double, double) { rate = ++*count; }
  };
  CHECK(names(laws::observes_alike(shared{&told}, 30), "two disagree"));
}
