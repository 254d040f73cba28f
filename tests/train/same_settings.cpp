// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Rank 2 of 3 differs from the others in one setting, which every rank must name.
#include <array>
#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/gossip.hpp>
#include <cordee/comm/hybrid.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/server.hpp>
#include <cordee/comm/topologies/adjacency.hpp>
#include <cordee/comm/tree.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/auto_wu.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr auto steady = [](double) { return 0.05; };

// The message of 3 ranks where `odd` is true on rank 2; f(comm, odd) trains. Where fit throws it also
// ends the other ranks, which may report that.
template <class F>
std::string refusal(const F& f) {
  std::array<std::string, 3> messages;
  const std::string thrown = error_message([&] {
    threads::launch(
        3,
        [&](threads comm) {
          std::string& own = messages[static_cast<std::size_t>(comm.rank())];
          own = error_message([&] { f(comm, comm.rank() == 2); });
        },
        long_deadline);
  });
  const std::string first = thrown.empty() ? messages[0] : thrown.substr(thrown.find(": ") + 2);
  for (const std::string& message : messages) CHECK(contains(message, first.c_str()));
  return first;
}
template <class Optimizer, class Schedule, class R>
void construct(const Optimizer& optimizer, const Schedule& schedule, const R& reducer,
               trainer_options options = {}) {
  quadratic<fp64> model;
  const trainer run{model, optimizer, schedule, reducer, options};
}
template <class F>
void fit_with(threads comm, F& feed, double epochs, double late_rate = 0.05) {
  quadratic<fp64> model;
  trainer run{model, sgd{}, [=](double epoch) { return epoch < 0.75 ? 0.05 : late_rate; },
              ring{comm}};
  run.fit(feed, epochs);
}

}  // namespace

TEST_CASE("same_settings: equal settings pass") {
  CHECK(refusal([](threads comm, bool) {
          construct(lars{}, steady, ring{comm}, {.seed = 3});
          loader feed{toy_data{}, comm, {.global_batch = 6, .seed = 1}};
          fit_with(comm, feed, 2);
          fit_with(comm, feed, 4);
        }).empty());
}

TEST_CASE("same_settings: another learning rate is named with both values and the rank") {
  CHECK(refusal([](threads comm, bool odd) {
          construct(sgd{}, constant{odd ? 0.1 : 0.05}, ring{comm});
        }) ==
        "trainer: the schedule differs: rank 0 has constant 0.05, rank 2 has constant 0.1: "
        "give every rank the same");
  CHECK(refusal([](threads comm, bool odd) {
          construct(
              sgd{}, [=](double) { return odd ? 0.1 : 0.05; }, ring{comm});
        }) ==
        "trainer: the learning rate at epoch 0 differs: rank 0 has 0.05, rank 2 has 0.1: give "
        "every rank the same");
}

TEST_CASE("same_settings: how AutoWU decides, its seed too") {
  const auto schedule = [](const auto_wu& other) {
    return refusal([&](threads comm, bool odd) {
      construct(sgd{}, odd ? other : auto_wu{.epochs = 9}, ring{comm});
    });
  };
  CHECK(schedule({.epochs = 9}).empty());
  CHECK(contains(schedule({.epochs = 9, .seed = 1}), "the schedule differs: rank 0 has AutoWU"));
  CHECK(contains(schedule({.epochs = 9, .tests = 7}), "the schedule differs"));
  CHECK(contains(schedule({.epochs = 9, .patience = 4}), "the schedule differs"));
  CHECK(contains(schedule({.epochs = 9, .confidence = 0.9}), "the schedule differs"));
}

TEST_CASE("same_settings: a schedule that differs later is named by fit, also by its last bit") {
  for (const double late : {0.1, std::nextafter(0.05, 1)})
    CHECK(contains(refusal([&](threads comm, bool odd) {
                     toy_loader feed{.rank_count = 3};
                     fit_with(comm, feed, 1, odd ? late : 0.05);
                   }),
                   "fit: the learning rate at epoch 0.9 differs"));
}

TEST_CASE("same_settings: every option of the optimizer, of the reducer and of the trainer") {
  const auto optimizer = [](const lars& other) {
    return refusal(
        [&](threads comm, bool odd) { construct(odd ? other : lars{}, steady, ring{comm}); });
  };
  CHECK(contains(optimizer({.momentum = 0.8}), "the optimizer differs: rank 0 has lars"));
  CHECK(contains(optimizer({.epsilon = 1e-9}), "the optimizer differs"));
  CHECK(contains(optimizer({.decay_on = kind::bias}), "the optimizer differs"));
  CHECK(contains(refusal([&](threads comm, bool odd) {
                   construct(local_steps{sgd{}, odd ? 4 : 8}, steady, ring{comm});
                 }),
                 "the optimizer differs"));

  const auto option = [](const trainer_options& other) {
    return refusal([&](threads comm, bool odd) {
      construct(sgd{}, steady, ring{comm}, odd ? other : trainer_options{});
    });
  };
  CHECK(option({.seed = 7}) ==
        "trainer: trainer_options::seed differs: rank 0 has 0, rank 2 has 7: give every rank the "
        "same");
  CHECK(contains(option({.check_finite = false}), "trainer_options::check_finite differs"));
  CHECK(contains(option({.max_nonfinite_steps = 2}), "max_nonfinite_steps differs"));
  CHECK(contains(option({.loss_scaling = {.interval = 2}}), "loss_scaling::interval differs"));
  CHECK(contains(option({.bucket_bytes = 64}), "bucket_bytes"));
  CHECK(option({.overlap = false, .check_stability = false}).empty());

  CHECK(contains(refusal([&](threads comm, bool odd) {
                   construct(sgd{}, steady, hybrid{tree{comm}, ring{comm}, odd ? 10u : 20u});
                 }),
                 "the reducer differs: rank 0 has "));
  CHECK(contains(refusal([&](threads comm, bool odd) {
                   construct(local_steps{sgd{}, 1}, steady,
                             server{comm, asynchronous{.staleness_bound = odd ? 1 : 2}});
                 }),
                 "the reducer differs"));
}

TEST_CASE("same_settings: the edges of a topology whose members are private") {
  const auto weights = [](double w) {
    return topologies::adjacency::weighted(
        {{1 - 2 * w, w, w}, {w, 1 - 2 * w, w}, {w, w, 1 - 2 * w}});
  };
  CHECK(
      contains(refusal([&](threads comm, bool odd) {
                 construct(local_steps{sgd{}, 1}, steady, gossip{comm, weights(odd ? 0.25 : 0.3)});
               }),
               "the reducer differs: rank 0 has edges "));
}

TEST_CASE("same_settings: seed, data, batch, length and position of the loader") {
  struct changes {
    std::size_t samples = 21;
    loader_options options{.global_batch = 6, .seed = 1};
    double epochs = 1;
    std::int64_t first = 0;
  };
  const auto loaded = [](const changes& other) {
    return refusal([&](threads comm, bool odd) {
      const changes c = odd ? other : changes{};
      loader feed{toy_data{c.samples}, comm, c.options};
      feed.seek(c.first);
      fit_with(comm, feed, c.epochs);
    });
  };
  CHECK(loaded({}).empty());
  CHECK(loaded({.options = {.global_batch = 6, .seed = 2}}) ==
        "fit: the seed of the loader differs: rank 0 has 1, rank 2 has 2: give every rank the "
        "same");
  CHECK(contains(loaded({.samples = 22}),
                 "fit: the number of samples differs: rank 0 has 21, rank 2 has 22"));
  CHECK(contains(loaded({.options = {.global_batch = 9, .seed = 1}}),
                 "the global batch differs: rank 0 has 6, rank 2 has 9"));
  CHECK(contains(loaded({.options = {.global_batch = 6, .accumulate = 2, .seed = 1}}),
                 "the number of micro-batches differs"));
  CHECK(contains(loaded({.options = {.global_batch = 6, .seed = 1, .last_batch = last_batch::pad}}),
                 "the loader differs: rank 0 has 21 samples"));
  CHECK(
      contains(loaded({.epochs = 2}), "the number of epochs differs: rank 0 has 1, rank 2 has 2"));
  CHECK(contains(loaded({.first = 1}), "the number of the first update differs"));
}

TEST_CASE("same_settings: the first line that differs, also where one text ends") {
  using detail::train::first_difference;
  CHECK(first_difference("a\t1\nb\t2\n", "a\t1\nb\t3\n", 4) ==
        "b differs: rank 0 has 2, rank 4 has 3: give every rank the same");
  CHECK(first_difference("a\t1\n", "a\t1\nb\t3\n", 4) ==
        "b differs: rank 0 has none, rank 4 has 3: give every rank the same");
  CHECK(first_difference("a\t1\nb\t2\n", "a\t1\n", 4) ==
        "b differs: rank 0 has 2, rank 4 has none: give every rank the same");
  CHECK(contains(first_difference("", "", 1), "rank 0 has none"));
}
