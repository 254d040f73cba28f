// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What fit shows an adaptive schedule, and what its learning rates do to the weights.
#include <algorithm>
#include <array>
#include <deque>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/auto_wu.hpp>
#include <cordee/schedule/plateau.hpp>
#include <cordee/schedule/warmup.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::schedule;
using namespace support;

namespace {

struct recorded {
  std::vector<double> learning_rates, step_losses;  // of the updates
  std::vector<double> losses, validation_losses;    // of the epochs
  std::vector<double> weights;
};

struct recorder {
  recorded* out;
  void step(const step_record& r) {
    out->learning_rates.push_back(r.info.learning_rate);
    out->step_losses.push_back(r.train.mean_loss());
  }
  void epoch(const epoch_record& e) {
    out->losses.push_back(e.train.mean_loss());
    if (e.validation) out->validation_losses.push_back(e.validation->mean_loss());
  }
};

// Ten updates an epoch, six epochs, the second of which ends with a fit.
template <class S>
std::deque<recorded> train(int ranks, const S& schedule) {
  return on_ranks(ranks, [&](threads comm) {
    recorded out;
    quadratic<fp64> model{.shift = 0.25 * (comm.rank() - 0.5 * (ranks - 1))};
    trainer run{model, sgd{}, schedule, ring{comm}};
    toy_loader feed{.rank_count = ranks};
    run.fit(feed, 1.5, recorder{&out}, validation{toy_data{}});
    run.fit(feed, 6, recorder{&out}, validation{toy_data{}});
    for (std::size_t k = 0; k < 4; ++k)
      for (const double w : numbers(run.weights(), k)) out.weights.push_back(w);
    return out;
  });
}

/// The rates of the sixty updates of a schedule that observes these losses of whole epochs.
template <class S>
std::vector<double> expected_learning_rates(S s, const std::vector<double>& training,
                                            const std::vector<double>& validation) {
  std::vector<double> out;
  for (int k = 0; k < 60; ++k) {
    out.push_back(s(k / 10.0));
    observation seen{k / 10.0, 0};
    const auto e = static_cast<std::size_t>(k / 10);
    if (k % 10 == 9) {
      seen.epoch_loss = training[e];
      seen.validation_loss = validation[e];
    }
    detail::schedule::observe(s, seen);
  }
  return out;
}

template <class S>
void check_schedule(const S& schedule) {
  for (const int ranks : {1, 3, 4}) {
    CAPTURE(ranks);
    const auto by_rank = train(ranks, schedule);
    const recorded& first = by_rank[0];
    CHECK(first.learning_rates.size() == 60);
    // The record in the middle of the second epoch is none of an epoch.
    std::vector<double> training = first.losses, validated = first.validation_losses;
    CHECK(training.size() == 7);
    training.erase(training.begin() + 1);
    validated.erase(validated.begin() + 1);
    CHECK(first.learning_rates == expected_learning_rates(schedule, training, validated));
    CHECK(first.learning_rates.back() < first.learning_rates[10]);
    for (const recorded& r : by_rank) CHECK(r.weights == first.weights);
    // The updates are those of plain steps at these learning rates.
    quadratic<fp64> model;
    trainer plain{model, sgd{}, learning_rates(first.learning_rates), solo{}};
    for (int k = 0; k < 60; ++k) plain.step(std::array{one_each(1)}, k);
    std::vector<double> weights;
    for (std::size_t k = 0; k < 4; ++k)
      for (const double w : numbers(plain.weights(), k)) weights.push_back(w);
    for (std::size_t i = 0; i < weights.size(); ++i)
      CHECK(close(first.weights[i], weights[i], 1e-12));
  }
}

/// AutoWU whose seed the other ranks do not see: a trainer refuses ranks of different seeds.
struct auto_wu_of_hidden_seed : auto_wu {
  static std::string describe() { return "AutoWU"; }
};

/// What AutoWU has learned in 16 epochs, with a switch after 13, and the weights.
std::vector<double> learned_by(threads comm, int seed) {
  quadratic<fp64> model;
  trainer run{model, sgd{},
              auto_wu_of_hidden_seed{{.epochs = 40,
                                      .min_learning_rate = 1e-3,
                                      .max_learning_rate = 0.3,
                                      .tests = 3,
                                      .patience = 13,
                                      .confidence = 0.3,
                                      .seed = static_cast<std::uint64_t>(seed)}},
              ring{comm}};
  toy_loader feed{.rank_count = comm.size()};
  run.fit(feed, 16);
  std::vector<double> out = run.schedule().learned;
  CHECK(out[auto_wu::at::phase] == 1);
  for (std::size_t k = 0; k < 4; ++k)
    for (const double w : numbers(run.weights(), k)) out.push_back(w);
  return out;
}

}  // namespace

TEST_CASE("fit: a plateau follows the losses of whole epochs, of training or of the validation") {
  check_schedule(training_plateau{.learning_rate = 0.1, .patience = 0, .threshold = 0.9});
  check_schedule(warmup{0.5, plateau{.learning_rate = 0.1, .patience = 0, .threshold = 0.9}});
}

TEST_CASE("fit: AutoWU decides by the losses of all updates, with the same weights everywhere") {
  // Confident at once, so that it leaves the warm-up although the loss falls.
  const auto_wu fresh{
      .epochs = 20, .min_learning_rate = 1e-3, .max_learning_rate = 0.3, .confidence = 0.3};
  for (const int ranks : {1, 3, 4}) {
    CAPTURE(ranks);
    const auto by_rank = on_ranks(ranks, [&](threads comm) {
      recorded out;
      quadratic<fp64> model{.shift = 0.25 * (comm.rank() - 0.5 * (ranks - 1))};
      trainer run{model, sgd{}, fresh, ring{comm}};
      toy_loader feed{.rank_count = ranks};
      run.fit(feed, 20, recorder{&out});
      CHECK(run.schedule().learned[auto_wu::at::phase] == 2);
      out.weights = run.schedule().learned;
      for (std::size_t k = 0; k < 4; ++k)
        for (const double w : numbers(run.weights(), k)) out.weights.push_back(w);
      return out;
    });
    for (const recorded& r : by_rank) CHECK(r.weights == by_rank[0].weights);
    const recorded& first = by_rank[0];
    auto_wu s = fresh;
    for (int k = 0; k < 200; ++k) {
      const auto at = static_cast<std::size_t>(k);
      CHECK(first.learning_rates[at] == s(k / 10.0));
      observation seen{k / 10.0, first.step_losses[at]};
      if (k % 10 == 9) seen.epoch_loss = first.losses[at / 10];
      s.observe(seen);
    }
    CHECK(s.learned[auto_wu::at::held] < 0.3);
    CHECK(first.learning_rates[159] == s.learned[auto_wu::at::held]);
    CHECK(first.learning_rates[199] == 0);
  }
}

TEST_CASE("fit: after an epoch every rank has the state of rank 0's schedule") {
  struct drifting {
    int rank = 0;
    std::vector<double> numbers{};
    double operator()(double) const { return 0.01; }
    void observe(const observation& seen) {
      if (seen.epoch_loss) numbers.assign(static_cast<std::size_t>(rank) + 2, 3.0 + rank);
    }
    std::vector<double>& state() { return numbers; }
  };
  for (const auto& by_rank : on_ranks(3, [](threads comm) {
         quadratic<fp64> model;
         trainer run{model, sgd{}, drifting{comm.rank()}, ring{comm}};
         toy_loader feed{.rank_count = 3};
         run.fit(feed, 1.5);
         return run.schedule().numbers;
       }))
    CHECK(by_rank == std::vector{3.0, 3.0});
}

TEST_CASE("fit: ranks whose votes of AutoWU differ follow rank 0's") {
  const auto learned = [](int ranks, bool same) {
    return on_ranks(ranks, [&](threads comm) { return learned_by(comm, same ? 1 : comm.rank()); });
  };
  const std::vector<double> expected = learned(1, false)[0];
  CHECK(learned(1, true)[0] != expected);  // another seed draws others of more than 100 losses
  // The mean of two equal losses is exact.
  for (const std::vector<double>& l : learned(2, false)) CHECK(l == expected);
}
