// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Runs in which the global batch changes: samples, learning rates, weights, and how they go on.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/batch_scaled.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/describe.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/checkpoint/labelled.hpp"
#include "tests/support/feeds.hpp"
#include "tests/support/numbered.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

const batch_schedule growing{{{1, 2}, {2.5, 3}}};

struct recorded {
  std::vector<double> samples, learning_rates, weights;
};
struct recorder {
  recorded* out;
  void step(const step_record& r) {
    out->samples.push_back(static_cast<double>(r.train.count));
    out->learning_rates.push_back(r.info.learning_rate);
  }
};

std::vector<double> tensor_weights(auto& run) {
  std::vector<double> out;
  for (std::size_t k = 0; k < 4; ++k)
    for (const double w : numbers(run.weights(), k)) out.push_back(w);
  return out;
}

auto staged_feed(const auto& comm, const batch_schedule& stages, std::int64_t batch = 6) {
  return loader{synthetic{.extent = {1, 4, 4}, .classes = 4, .samples = 22, .seed = 3},
                comm,
                {.global_batch = batch, .accumulate = 2, .seed = 5, .batch_schedule = stages},
                pad_crop_flip{},
                {}};
}

}  // namespace

TEST_CASE(
    "loader: stages multiply the micro-batches or their samples; the order stays one sequence") {
  for (const bool grow : {false, true})
    for (const int ranks : world_sizes) {
      CAPTURE(grow);
      CAPTURE(ranks);
      loader one{numbered{}, rank_stub{}, {.global_batch = 1, .seed = 3}};
      std::vector<std::vector<int>> updates(20);
      for (int r = 0; r < ranks; ++r) {
        loader feed{numbered{},
                    rank_stub{r, ranks},
                    {.global_batch = 6,
                     .accumulate = 2,
                     .seed = 3,
                     .batch_schedule = growing,
                     .grow_micro_batch = grow}};
        for (std::size_t k = 0; k < updates.size(); ++k) {
          const int factor = growing(feed.epoch(static_cast<std::int64_t>(k)));
          const auto micro = feed.next();
          CHECK(micro.size() == static_cast<std::size_t>(grow ? 2 : 2 * factor));
          for (const auto& b : micro) CHECK(b.global_samples == 6 * factor);
          const auto own = samples_of(micro);
          updates[k].insert(updates[k].end(), own.begin(), own.end());
        }
      }
      for (const auto& update : updates)
        for (const int sample : update) CHECK(sample == samples_of(one.next())[0]);
    }
}

TEST_CASE("fit: a batch that grows, and a learning rate that follows, golden on 1, 3 and 4 ranks") {
  for (const double exponent : {0.0, 0.5, 1.0})
    for (const int ranks : {1, 3, 4}) {
      CAPTURE(exponent);
      CAPTURE(ranks);
      const auto by_rank = on_ranks(ranks, [&](threads comm) {
        recorded out;
        quadratic<fp64> model;
        trainer run{model, sgd{}, batch_scaled{constant{0.03}, growing, exponent}, ring{comm}};
        loader feed{toy_data{24}, comm, {.global_batch = 6, .batch_schedule = growing}};
        CHECK(run.fit(feed, 4, recorder{&out}).steps == 4 + 3 + 2);
        CHECK(contains(describe(run, feed, 4),
                       "a global batch of 12 from update 4 (epoch 1) on, a global batch of 18 from "
                       "update 7 (epoch 2.5) on, in more micro-batches; "));
        out.weights = tensor_weights(run);
        return out;
      });
      const recorded& first = by_rank[0];
      CHECK(first.samples == std::vector<double>{6, 6, 6, 6, 12, 12, 12, 18, 18});
      std::vector<double> expected;
      for (const double n : first.samples) expected.push_back(0.03 * std::pow(n / 6, exponent));
      for (std::size_t k = 0; k < expected.size(); ++k)
        CHECK(close(first.learning_rates[k], expected[k], 1e-15));
      quadratic<fp64> model;
      trainer plain{model, sgd{}, learning_rates(expected), solo{}};
      for (int k = 0; k < 9; ++k) plain.step(std::array{one_each(1)}, k);
      const auto weights = tensor_weights(plain);
      for (const recorded& r : by_rank)
        for (std::size_t i = 0; i < weights.size(); ++i)
          CHECK(close(r.weights[i], weights[i], 1e-13));
    }
}

TEST_CASE("fit: a run that stops in any stage goes on to the bit") {
  for (const int ranks : {1, 3}) {
    on_ranks(ranks, [&](threads comm) {
      const batch_scaled schedule{falling, growing, 0.5};
      constexpr sgd plain{.momentum = 0};  // so that the weights are all planes
      labelled<fp64> whole_model;
      trainer whole{whole_model, plain, schedule, ring{comm}};
      auto whole_feed = staged_feed(comm, growing);
      whole.fit(whole_feed, 4);
      for (const double stop : {0.5, 1.0, 1.5, 2.5, 2.6, 3.5}) {
        CAPTURE(stop);
        labelled<fp64> before, after;
        trainer a{before, plain, schedule, ring{comm}}, b{after, plain, schedule, ring{comm}};
        auto feed = staged_feed(comm, growing);
        a.fit(feed, stop);
        const detail::train::run_state state = a.state();
        std::copy(a.weights().begin(), a.weights().end(), b.weights().begin());
        b.restore(state);
        auto fresh = staged_feed(comm, growing);
        b.fit(fresh, 4);
        CHECK(tensor_weights(b) == tensor_weights(whole));
      }
      return 0;
    });
  }
}

TEST_CASE(
    "fit: a loader with another past of the batch is refused, one with another future is not") {
  const batch_scaled schedule{falling, growing, 0.5};
  for (const double stop : {0.5, 1.0, 1.5, 2.5, 2.6, 3.5}) {
    CAPTURE(stop);
    labelled<fp64> model;
    trainer run{model, sgd{}, schedule, solo{}};
    auto feed = staged_feed(rank_stub{}, growing);
    run.fit(feed, stop);
    const detail::train::run_state state = run.state();
    const auto refusal = [&](const batch_schedule& stages, std::int64_t batch) {
      run.restore(state);
      auto other = staged_feed(rank_stub{}, stages, batch);
      return error_message([&] { run.fit(other, 4); });
    };
    const bool has_grown = stop > 1.3;
    CHECK(contains(refusal({{{0.1, 2}}}, 6), "the batch_schedule of before"));
    CHECK(contains(refusal({}, 6), "the batch_schedule of before") == has_grown);
    if (has_grown) CHECK(contains(refusal(growing, 3), "continue with"));
    CHECK(refusal({{{1, 2}, {2.5, 3}, {3.9, 5}}}, 6) == "");
  }
}
