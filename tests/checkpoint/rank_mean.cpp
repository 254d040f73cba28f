// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A run that is resumed by another number of ranks. Where its sums are exact in any order it is the
// uninterrupted run, to the bit; what differed between ranks is the mean, to rounding.
#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/checkpoint/checkpoint.hpp>
#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/one_bit_lamb.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/optim/zero_one_adam.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/checkpoint/exact_sums.hpp"
#include "tests/checkpoint/labelled.hpp"
#include "tests/support/bits.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::checkpoints;
using namespace support;
using namespace support::exact;

namespace {

/// Halves its learning rate when the loss has risen.
struct cautious {
  std::array<double, 2> numbers{1, 1e300};  // factor, last loss
  double operator()(double) const { return 0.1 * numbers[0]; }
  void observe(const observation& seen) {
    numbers = {seen.loss > numbers[1] ? numbers[0] / 2 : numbers[0], seen.loss};
  }
  std::span<double> state() { return numbers; }
};

/// All planes of a run, as one rank holds them.
struct held {
  std::vector<double> common, own, residuals;
  std::vector<double> numbers;  // of the optimizer, of each segment
  std::vector<int> labels;
};
template <class Run>
held held_by(Run& run) {
  held h;
  h.numbers = run.state().optimizer;
  for (const auto& p : saved_planes(run)) {
    std::vector<double>& to = p.common                           ? h.common
                              : p.prefix.starts_with("reducer_") ? h.residuals
                                                                 : h.own;
    for (const segment& s : p.segments)
      for (std::size_t i = 0; i < s.size; ++i)
        to.push_back(static_cast<double>(p.plane.of(s.offset, s.size)[i]));
  }
  if constexpr (requires { run.model().labels; }) h.labels = run.model().labels;
  return h;
}

/// What the ranks hold after a run over the enumerated samples to `epochs`: a run without
/// checkpoint if `runs` is empty, else one from that checkpoint or to it.
template <class Model, class O, class S, class MakeReducer>
auto run_on(int ranks, const O& optimizer, const S& schedule, const MakeReducer& make_reducer,
            const std::string& runs, bool resumes, double epochs) {
  return on_ranks(ranks, [&](threads comm) {
    Model model;
    trainer run{model, optimizer, schedule, make_reducer(comm), {.check_stability = false}};
    run.statistics()[0] = static_cast<typename Model::Real>(0.37 * comm.rank());
    if (resumes) CHECK(run.resume(runs));
    auto feed = enumerated_feed(comm);
    if (epochs == 0) return held_by(run);
    if (resumes || runs.empty())
      run.fit(feed, epochs);
    else
      run.fit(feed, epochs, checkpoint{.folder = runs});
    return held_by(run);
  });
}

constexpr auto over_ring = [](threads comm) { return ring{comm}; };

/// The labels of each of `count` updates, sorted, of all ranks, which train as many in each update.
std::vector<std::vector<int>> by_update(const std::deque<held>& ranks, std::size_t count) {
  std::vector<std::vector<int>> all(count);
  for (const held& h : ranks)
    for (std::size_t i = 0; i < h.labels.size(); ++i)
      all[i / (h.labels.size() / count)].push_back(h.labels[i]);
  for (auto& labels : all) std::sort(labels.begin(), labels.end());
  return all;
}

/// Trains on each number of ranks, and goes on with each other one.
template <class P, class O, class S>
void continues_to_the_bit(const std::string& name, const O& optimizer, const S& schedule) {
  INFO(name);
  using model = exact_sums<P>;
  const auto uninterrupted = run_on<model>(1, optimizer, schedule, over_ring, "", false, whole);
  const auto all_updates = by_update(uninterrupted, updates);
  std::vector<int> times(samples);
  for (const auto& labels : all_updates)
    for (const int label : labels) ++times[static_cast<std::size_t>(label)];
  for (const int n : times) REQUIRE((n == 3 || n == 4));  // three epochs, and twelve samples more

  for (const int before : rank_counts) {
    const folder files;
    const auto first =
        run_on<model>(before, optimizer, schedule, over_ring, files.file("runs"), false, until);
    CHECK(std::equal(all_updates.begin(), all_updates.begin() + stopped_at,
                     by_update(first, stopped_at).begin()));
    for (const int now : rank_counts) {
      CAPTURE(before);
      CAPTURE(now);
      const auto second =
          run_on<model>(now, optimizer, schedule, over_ring, files.file("runs"), true, whole);
      CHECK(std::equal(all_updates.begin() + stopped_at, all_updates.end(),
                       by_update(second, updates - stopped_at).begin()));
      for (const held& h : second) {
        CHECK(same_bits(h.common, uninterrupted[0].common));
        CHECK(same_bits(h.numbers, uninterrupted[0].numbers));
      }
    }
  }
}

/// |mean - the mean of x| of two halves: each of n differences, their sum, the quotient and the sum
/// are rounded in double, and the result in Real.
template <class Real>
bool is_mean(double mean, const std::vector<double>& x) {
  long double sum = 0;
  double largest = 0;
  for (const double v : x) {
    sum += static_cast<long double>(v);
    largest = std::max(largest, std::abs(v));
  }
  const auto n = static_cast<double>(x.size());
  const double exact = static_cast<double>(sum / static_cast<long double>(n));
  const double tolerance = (4 * n + 4) * std::numeric_limits<double>::epsilon() * largest +
                           std::numeric_limits<Real>::epsilon() / 2 * std::abs(exact);
  return std::abs(mean - exact) <= tolerance;
}

template <class Real>
std::size_t not_the_mean(const std::vector<double> held::*part, const held& now,
                         const std::deque<held>& before) {
  std::size_t wrong = (now.*part).size() == (before[0].*part).size() ? 0 : 1;
  for (std::size_t i = 0; wrong == 0 && i < (now.*part).size(); ++i) {
    std::vector<double> saved;
    for (const held& h : before) saved.push_back((h.*part)[i]);
    wrong += is_mean<Real>((now.*part)[i], saved) ? 0 : 1;
  }
  return wrong;
}

/// What differs between ranks is the mean after resuming with another number, and the run goes on.
template <class P, class O, class MakeReducer>
void begins_from_the_mean(const std::string& name, const O& optimizer,
                          const MakeReducer& make_reducer) {
  INFO(name);
  using model = labelled<P>;
  using Real = typename P::master;
  const auto train = [&](int ranks, const std::string& runs, bool resumes, double epochs) {
    return on_ranks(ranks, [&](threads comm) {
      model toy;
      trainer run{toy, optimizer, falling, make_reducer(comm), {.check_stability = false}};
      run.statistics()[0] = static_cast<Real>(0.37 * comm.rank());
      if (resumes) CHECK(run.resume(runs));
      const held begun = held_by(run);
      auto feed = labelled_feed(comm);
      if (resumes)
        run.fit(feed, epochs);
      else
        run.fit(feed, epochs, checkpoint{.folder = runs});
      CHECK(run.steps_taken() == feed.steps(epochs));
      return resumes ? begun : held_by(run);
    });
  };
  for (const int before : rank_counts) {
    const folder files;
    const auto saved = train(before, files.file("runs"), false, 1.5);
    if (before > 1) CHECK_FALSE(saved[0].own == saved[1].own);
    for (const int now : rank_counts) {
      CAPTURE(before);
      CAPTURE(now);
      if (now == before) continue;
      for (const held& h : train(now, files.file("runs"), true, 2)) {
        CHECK(same_bits(h.common, saved[0].common));
        CHECK(same_bits(h.numbers, saved[0].numbers));
        CHECK(not_the_mean<Real>(&held::own, h, saved) == 0);
        CHECK(not_the_mean<Real>(&held::residuals, h, saved) == 0);
      }
    }
  }
}

}  // namespace

TEST_CASE("rank_mean: a run over exact sums is the uninterrupted one on any number of ranks") {
  continues_to_the_bit<fp32>("lars", lars{.trust_coefficient = 0.02}, cautious{});
  continues_to_the_bit<fp64>("adamw in fp64", adamw{}, falling);
  continues_to_the_bit<fp64>("the warm-up of one_bit_lamb", one_bit_lamb{.start_epoch = 4},
                             falling);
}
TEST_CASE("rank_mean: statistics, residuals, weights and slots of ranks that differ are the mean") {
  begins_from_the_mean<fp32>("local steps of adamw", local_steps{adamw{}, 4}, over_ring);
  begins_from_the_mean<fp64>("gossip", decentlam{.momentum = 0.5}, [](threads comm) {
    return gossip{comm, topologies::one_peer{}};
  });
  begins_from_the_mean<fp32>("one_bit_lamb", one_bit_lamb{.start_epoch = 0.5}, by_signs_from(0.5));
  begins_from_the_mean<fp32>(
      "zero_one_adam between two exchanges",
      zero_one_adam{.var_freeze_step = 2, .local_step_scaler = 1, .local_step_clipper = 4},
      by_signs_from(0));
}

TEST_CASE("rank_mean: what error feedback has kept back is made up for by other ranks") {
  // w_T = w_0 - lr (g_1 + ... + g_T - e_T), with the means g of the gradients, which do not depend
  // on w, and e_T of the residuals: what was lost on the way is in w, or there still.
  constexpr auto steady = [](double) { return 0.0625; };
  const auto over_int8 = [](threads comm) { return compressed{ring{comm}, int8{}}; };
  using model = exact_sums<fp64>;
  const sgd plain{.momentum = 0};
  const auto train = [&](int ranks, const std::string& runs, bool resumes, double epochs) {
    return run_on<model>(ranks, plain, steady, over_int8, runs, resumes, epochs);
  };
  for (const int before : rank_counts) {
    const folder files;
    const auto saved = train(before, files.file("runs"), false, until);
    double kept = 0;  // what would be lost
    for (const held& h : saved)
      for (const double e : h.residuals) kept = std::max(kept, std::abs(e));
    if (before > 1) CHECK(kept > 1e-3);
    for (const int now : rank_counts) {
      CAPTURE(before);
      CAPTURE(now);
      if (now != before)
        for (const held& h : train(now, files.file("runs"), true, 0)) {
          CHECK(not_the_mean<double>(&held::own, h, saved) == 0);  // the statistics
          CHECK(not_the_mean<double>(&held::residuals, h, saved) == 0);
        }
      const auto last = train(now, files.file("runs"), true, whole);
      std::size_t at = 0, wrong = 0;
      for (std::size_t k = 0; k < t4_start.size(); ++k)
        for (std::size_t i = 0; i < t4_table[k].size; ++i, ++at) {
          double sum = 0, owed = 0;
          for (const auto* part : {&saved, &last})
            for (const held& h : *part)
              for (const int label : h.labels) sum += model::gradient(label, k, i);
          for (const held& h : last) owed += h.residuals[at] / now;
          // Per update, numbers below 2^7 are rounded at most 8 times on each rank.
          const double tolerance = updates * 8 * 8 * 128 * std::numeric_limits<double>::epsilon();
          const double expected = t4_start[k][i] - 0.0625 * (sum / batch_size - owed);
          wrong += std::abs(last[0].common[at] - expected) <= tolerance ? 0 : 1;
        }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE(
    "rank_mean: the merged state is of the rank with most steps and the smallest loss scale") {
  std::vector<detail::train::run_state> ranks(3);
  ranks[0].progress =
      detail::train::progress{.step = 9, .applied = 7, .previous_learning_rate = 0.5};
  ranks[1].progress =
      detail::train::progress{.step = 9, .applied = 8, .previous_learning_rate = 0.25};
  ranks[2].progress =
      detail::train::progress{.step = 9, .applied = 8, .previous_learning_rate = 0.125};
  ranks[0].scale = {512, 3};
  ranks[1].scale = {1024, 5};
  ranks[2].scale = {256, 1};
  const detail::train::run_state merged = merged_state(ranks);
  CHECK(merged.progress == ranks[1].progress);
  CHECK(merged.scale == ranks[2].scale);
}
