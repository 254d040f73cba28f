// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Runs whose global batch, or learning rate, follows the measured noise of the gradient.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/ada_scale.hpp>
#include <cordee/schedule/adaptive_batch.hpp>
#include <cordee/schedule/batch_scaled.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/describe.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr sgd plain{.momentum = 0};  // so that the weights are all planes
const trainer_options measured{.measure_gradient_noise = true};
// The ranks' centers differ by a constant, so the noise scale grows as the mean gradient falls.
adaptive_batch<constant> policy_of(int ranks) { return {constant{0.02}, 12.0 - 2 * ranks, 8, 0.5}; }

quadratic<fp64> model_of(const threads& comm) {
  return {.shift = 0.25 * (comm.rank() - 0.5 * (comm.size() - 1))};
}
auto feed_of(const threads& comm, const batch_schedule& stages = {},
             last_batch end = last_batch::carry) {
  return loader{
      toy_data{50}, comm, {.global_batch = 6, .last_batch = end, .batch_schedule = stages}};
}
std::vector<double> tensor_weights(auto& run) {
  std::vector<double> out;
  for (std::size_t k = 0; k < 4; ++k)
    for (const double w : numbers(run.weights(), k)) out.push_back(w);
  return out;
}
struct keep_samples {
  std::vector<std::int64_t>* out;
  void step(const step_record& r) { out->push_back(r.train.count); }
};

}  // namespace

TEST_CASE("adaptive_batch: the run is that of the stages that it decided, on all ranks alike") {
  for (const last_batch end : {last_batch::carry, last_batch::drop, last_batch::pad})
    for (const int ranks : {2, 3, 4}) {
      CAPTURE(ranks);
      const auto decisions = on_ranks(ranks, [&](threads comm) {
        quadratic<fp64> model = model_of(comm), other = model;
        std::vector<std::int64_t> samples, samples_of_stages;
        trainer run{model, plain, policy_of(ranks), ring{comm}, measured};
        auto feed = feed_of(comm, {}, end);
        const run_summary done = run.fit(feed, 9.5, keep_samples{&samples});
        CHECK(done.last.last.steps == done.steps);
        const batch_schedule decided = run.schedule().batch_decided();

        trainer staged{other, plain, batch_scaled{constant{0.02}, decided, 0.5}, ring{comm}};
        auto staged_feed = feed_of(comm, decided, end);
        staged.fit(staged_feed, 9.5, keep_samples{&samples_of_stages});
        CHECK(tensor_weights(run) == tensor_weights(staged));
        CHECK(samples == samples_of_stages);
        CHECK(feed.step() == staged_feed.step());
        CHECK(feed.describe() == staged_feed.describe());
        return decided;
      });
      for (const batch_schedule& decided : decisions) {
        CHECK(std::ranges::equal(decided, decisions[0]));
        CHECK(std::ranges::distance(decided) >= 2);
        CHECK(decided.begin()->epoch > 1);  // it is the noise that decides, not the first epoch
        // tests/support/schedule_goldens.py, for equal shares of the ranks
        if (end == last_batch::carry && ranks == 2)
          CHECK(decided.describe() ==
                "times 2 from epoch 2, times 4 from epoch 4, times 8 from epoch 8");
        if (end == last_batch::carry && ranks == 3)
          CHECK(decided.describe() == "times 2 from epoch 2, times 4 from epoch 4");
      }
    }
}

TEST_CASE("adaptive_batch: a run that stops anywhere goes on to the bit, with its stages") {
  on_ranks(3, [](threads comm) {
    quadratic<fp64> whole_model = model_of(comm);
    trainer whole{whole_model, plain, policy_of(comm.size()), ring{comm}, measured};
    auto whole_feed = feed_of(comm);
    whole.fit(whole_feed, 9.5);
    for (const double stop : {0.5, 1.0, 2.0, 3.0, 3.3, 4.0, 5.0, 6.0, 8.7}) {
      CAPTURE(stop);
      quadratic<fp64> before = model_of(comm), after = model_of(comm);
      trainer a{before, plain, policy_of(comm.size()), ring{comm}, measured};
      auto feed = feed_of(comm);
      a.fit(feed, stop);
      trainer b{after, plain, policy_of(comm.size()), ring{comm}, measured};
      std::copy(a.weights().begin(), a.weights().end(), b.weights().begin());
      b.restore(a.state());
      auto fresh = feed_of(comm);
      b.fit(fresh, 9.5);
      CHECK(tensor_weights(b) == tensor_weights(whole));
      CHECK(b.schedule().decided == whole.schedule().decided);
    }
    return 0;
  });
}

TEST_CASE("adaptive_batch: describe has the rule before, and the stages as they are decided") {
  on_ranks(2, [](threads comm) {
    quadratic<fp64> model = model_of(comm);
    trainer run{model, plain, policy_of(comm.size()), ring{comm}, measured};
    auto feed = feed_of(comm);
    CHECK(contains(describe(run, feed, 9.5), "where B doubles after an epoch as long as"));
    CHECK(!contains(describe(run, feed, 9.5), "a global batch of 12"));
    run.fit(feed, 9.5);
    CHECK(contains(describe(run, feed, 9.5), "a global batch of 12 from update "));
    return 0;
  });
}

TEST_CASE("adaptive_batch is refused without a measurement, and beside a loader's own stages") {
  const auto refusal = [](const trainer_options& options, const batch_schedule& stages) {
    return error_message([&] {
      threads::launch(2, [&](threads comm) {
        quadratic<fp64> model = model_of(comm);
        trainer run{model, plain, policy_of(2), ring{comm}, options};
        auto feed = feed_of(comm, stages);
        run.fit(feed, 1);
      });
    });
  };
  CHECK(contains(refusal({}, {}), "set trainer_options::measure_gradient_noise"));
  CHECK(contains(refusal(measured, {{{1, 2}}}), "there is no .batch_schedule"));
}

TEST_CASE("adaptive_batch is refused on one rank, which has no noise to decide by") {
  const auto refusal = [](const auto& reducer, const trainer_options& options) {
    return error_message([&] {
      quadratic<fp64> model;
      trainer run{model, plain, policy_of(2), reducer, options};
      loader feed{toy_data{50}, reducer.comm, {.global_batch = 6}};
      run.fit(feed, 1);
    });
  };
  on_ranks(1, [&](threads comm) {
    CHECK(contains(refusal(ring{comm}, measured), "use two ranks or more"));
    return 0;
  });
  CHECK(contains(refusal(solo{}, measured), "use two ranks or more"));
  CHECK(contains(refusal(solo{}, {}), "set trainer_options::measure_gradient_noise"));
}

// fairscale's AdaScale 0.4.13, which sums the ranks' norms in single precision; its gain is used by
// the next update (tests/support/schedule_goldens.py).
TEST_CASE("ada_scale: gains, progress and weights are fairscale's, one update later") {
  struct golden {
    double gain, progress;
    std::array<double, 9> weights;
  };
  const auto falling = [](double epoch) { return 0.05 / (1 + epoch); };
  const auto check = [&](int ranks, const golden& expected) {
    on_ranks(ranks, [&](threads comm) {
      const auto run_until = [&](auto& run, double epochs) {
        loader feed{toy_data{120}, comm, {.global_batch = 12}};
        run.fit(feed, epochs);
      };
      quadratic<fp64> model = model_of(comm), first_half = model, second_half = model;
      const ada_scale policy{falling, static_cast<double>(ranks)};
      trainer run{model, plain, policy, ring{comm}, measured};
      run_until(run, 2.4);
      CHECK(std::abs(run.schedule().gain() - expected.gain) < 1e-6 * expected.gain);
      CHECK(std::abs(run.schedule().progress(2.3) - expected.progress) < 1e-6);
      const auto weights = tensor_weights(run);
      for (std::size_t i = 0; i < 9; ++i) CHECK(std::abs(weights[i] - expected.weights[i]) < 1e-6);

      trainer a{first_half, plain, policy, ring{comm}, measured};
      run_until(a, 1.1);
      trainer b{second_half, plain, policy, ring{comm}, measured};
      std::copy(a.weights().begin(), a.weights().end(), b.weights().begin());
      b.restore(a.state());
      run_until(b, 2.4);
      CHECK(tensor_weights(b) == weights);
      CHECK(b.schedule().seen == run.schedule().seen);
      loader feed{toy_data{120}, comm, {.global_batch = 12}};
      CHECK(contains(describe(b, feed, 3), "steps of the small batch an update"));
      return 0;
    });
  };
  check(3, {2.2883056372496746,
            1.3931065576972332,
            {0.4240897883377, -0.1105996058379, 0.206309612815, -0.1994439917203, 0.07591021166234,
             -0.08410059124322, 0.8488207628196, -1.853071823473, 0.01204489416883}});
  check(4, {3.191437755154804,
            1.4223770430839346,
            {0.4142596108333, -0.10341355783, 0.2009932892756, -0.19996276333, 0.08574038916667,
             -0.09487966325503, 0.8155788829064, -1.811842471618, 0.007129805416667}});
}

TEST_CASE("ada_scale is refused without a measurement") {
  const std::string refusal = error_message([&] {
    threads::launch(2, [&](threads comm) {
      quadratic<fp64> model = model_of(comm);
      trainer run{model, plain, ada_scale{constant{0.02}, 2}, ring{comm}};
      auto feed = feed_of(comm);
      run.fit(feed, 1);
    });
  });
  CHECK(contains(refusal, "set trainer_options::measure_gradient_noise"));
}
