// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr constant steady{0.05};

struct step_recorder {
  std::vector<step_record>* steps;
  void step(const step_record& r) { steps->push_back(r); }
};

struct slow_ring : ring<threads> {
  template <class Real, class D>
  void mix(bucket_view<Real, D, 0> b, const step_info& info, typename D::stream s) const {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ring<threads>::mix(b, info, s);
  }
};

struct distance_recorder {
  std::vector<epoch_record>* epochs;
  double* distance;
  void epoch(const epoch_record& e) { epochs->push_back(e); }
  template <class Run>
  bool epoch_on_all_ranks(Run& run, const epoch_record&) {
    *distance = run.consensus_distance();
    return false;
  }
};

}  // namespace

TEST_CASE("fit: records have the factor of a clipped gradient") {
  std::vector<step_record> clipped, plain;
  quadratic<fp64> model;
  toy_loader feed, again;
  trainer run{model, clip{sgd{}, 0.5}, steady, solo{}};
  run.fit(feed, 1, step_recorder{&clipped});
  trainer other{model, sgd{}, steady, solo{}};
  other.fit(again, 1, step_recorder{&plain});
  REQUIRE(clipped.size() == 10);
  CHECK(clipped[0].grad_norm > 0.5);
  CHECK(clipped[0].grad_norm == plain[0].grad_norm);  // before it is clipped
  for (const step_record& r : clipped)
    CHECK(r.clip_factor == std::min(1.0, 0.5 / (r.grad_norm + 1e-6)));
  CHECK_FALSE(plain[0].clip_factor.has_value());
}

TEST_CASE("fit: records have the seconds that an update waited for its loader and its exchange") {
  struct slow_loader : toy_loader {
    auto next() {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return toy_loader::next();
    }
  };
  for (const int ranks : {1, 2}) {
    std::vector<step_record> steps;
    on_ranks(ranks, [&](threads comm) {
      quadratic<fp64> model;
      trainer run{model, sgd{}, steady, slow_ring{{comm}}};
      slow_loader feed{{.rank_count = ranks}};
      run.fit(feed, 1, step_recorder{&steps});
      return 0;
    });
    REQUIRE(steps.size() == 10);
    double waited = 0, exposed = 0;
    for (const step_record& r : steps) {
      CHECK(r.exposed_exchange.has_value() == (ranks > 1));  // alone there is no exchange
      waited += r.input_wait;
      exposed += r.exposed_exchange.value_or(0);
    }
    CHECK(steps[0].input_wait >= 0.02);  // the first update and the second
    CHECK(steps[1].input_wait >= 0.01);
    CHECK(steps[9].input_wait == 0);              // there is no eleventh
    CHECK(waited + exposed <= steps[9].seconds);  // each second is counted once
    CHECK((exposed > 0) == (ranks > 1));
  }
}

TEST_CASE("fit: records have the loss scale of precisions that scale their loss") {
  std::vector<step_record> steps, others;
  on_ranks(2, [&](threads comm) {
    quadratic<fp16> scaled;
    trainer run{scaled, sgd{}, steady, ring{comm}, {.loss_scaling = {.initial = 8, .interval = 2}}};
    toy_loader feed{.rank_count = 2};
    run.fit(feed, 0.4, step_recorder{&steps});
    quadratic<fp64> model;
    trainer other{model, sgd{}, steady, ring{comm}};
    toy_loader again{.rank_count = 2};
    other.fit(again, 0.1, step_recorder{&others});
    return 0;
  });
  std::vector<double> scales;
  for (const step_record& r : steps) scales.push_back(r.loss_scale.value_or(0));
  CHECK(scales == std::vector<double>{8, 8, 16, 16});
  CHECK_FALSE(others.at(0).loss_scale.has_value());
}

TEST_CASE("fit: an epoch's record has the disagreement of weights, where weights differ") {
  on_ranks(3, [&](threads comm) {
    std::vector<epoch_record> local, exact;
    double distance = 0;
    quadratic<fp64> model{.shift = 1.0 * comm.rank()};
    trainer run{model, local_steps{sgd{}, 4}, steady, ring{comm}};
    toy_loader feed{.rank_count = 3};
    run.fit(feed, 1, distance_recorder{&local, &distance});
    trainer same{model, sgd{}, steady, ring{comm}};
    toy_loader again{.rank_count = 3};
    double none = 0;
    same.fit(again, 1, distance_recorder{&exact, &none});
    if (comm.rank() != 0) return 0;
    REQUIRE(local.size() == 1);
    CHECK(distance > 0.01);  // two steps after an average
    CHECK(local[0].consensus_distance.value_or(0) == distance);
    CHECK_FALSE(exact.at(0).consensus_distance.has_value());
    return 0;
  });
}
