// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A run that stops at a checkpoint and is resumed in a new trainer, beside one that does not stop.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/checkpoint/checkpoint.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/checkpoint/labelled.hpp"
#include "tests/support/bits.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"

namespace support {

using namespace cordee;
using namespace cordee::detail::checkpoints;

/// All that a run shows after its last step.
struct ending {
  std::vector<double> numbers;  // of all planes
  std::vector<double> records;  // on rank 0: of each step, and of the ends of epochs

  friend bool operator==(const ending& a, const ending& b) {
    return same_bits(a.numbers, b.numbers) && same_bits(a.records, b.records);
  }
};

struct recorder {
  std::vector<double>* records;
  std::int64_t from = 0;  // the first step of interest

  void step(const step_record& r) {
    if (r.info.step < from) return;
    records->insert(records->end(),
                    {static_cast<double>(r.info.step), r.info.epoch, r.info.learning_rate,
                     r.train.loss, static_cast<double>(r.train.count), r.grad_norm,
                     static_cast<double>(r.skipped), r.noise.averages[2]});
  }
  void epoch(const epoch_record& e) {
    if (e.last.info.step < from) return;
    records->insert(records->end(), {e.train.loss, static_cast<double>(e.train.count)});
  }
};

/// A trainer with a model of its own.
template <class M, class Run>
struct model_and_run {
  M model;
  Run run;
  explicit model_and_run(const auto&... arguments) : run(model, arguments...) {}
};
template <class M, class Run>
auto owned_run(const auto&... arguments) {
  const auto both = std::make_shared<model_and_run<M, Run>>(arguments...);
  return std::shared_ptr<Run>(both, &both->run);
}

inline constexpr std::int64_t checkpoint_step =
    6;  // of 11 updates, in the middle of the second epoch
inline constexpr double checkpoint_epoch = checkpoint_step * 6 / 22.0, last_epoch = 3;

template <class Run>
ending end_of(Run& run, std::vector<double> records) {
  ending e{{}, std::move(records)};
  for (const auto& p : saved_planes(run))
    for (const segment& s : p.segments)
      for (std::size_t i = 0; i < s.size && p.plane.has(s); ++i)
        e.numbers.push_back(static_cast<double>(p.plane.of(s.offset, s.size)[i]));
  return e;
}

inline constexpr auto copied = [](const auto& x) { return x; };

/// Trains make(seed) without interruption, and in two parts with a checkpoint between them, with
/// copies of `also` as callbacks.
template <class Make, class MakeFeed>
void resumes_to_the_bit(int ranks, const Make& make, const MakeFeed& make_feed,
                        const auto&... also) {
  CAPTURE(ranks);
  const folder files;
  const std::string runs = files.file("runs");
  const auto uninterrupted = on_ranks(ranks, [&](threads comm) {
    std::vector<double> records;
    const auto run = make(comm, 0u);
    auto feed = make_feed(comm);
    run->fit(feed, last_epoch, recorder{&records, checkpoint_step}, copied(also)...);
    return end_of(*run, records);
  });
  on_ranks(ranks, [&](threads comm) {
    const auto run = make(comm, 0u);
    auto feed = make_feed(comm);
    CHECK_FALSE(run->resume(runs));
    std::vector<double> records;
    run->fit(feed, checkpoint_epoch, recorder{&records}, copied(also)...,
             checkpoint{.folder = runs, .every = {.steps = 4}});
    CHECK(run->steps_taken() == checkpoint_step);
    return 0;
  });
  CHECK(run_folder(runs).steps() == std::vector<std::int64_t>{6, 4});
  const auto resumed = on_ranks(ranks, [&](threads comm) {
    std::vector<double> records;
    const auto run = make(comm, 1u);
    auto feed = make_feed(comm);
    CHECK(run->resume(runs));
    CHECK(run->steps_taken() == checkpoint_step);
    run->fit(feed, last_epoch, recorder{&records, checkpoint_step}, copied(also)...,
             checkpoint{.folder = runs, .every = {.epochs = 1}});
    return end_of(*run, records);
  });
  for (std::size_t r = 0; r < resumed.size(); ++r) {
    CHECK(resumed[r].numbers.size() > 9);
    CHECK(resumed[r] == uninterrupted[r]);
  }
  CHECK(uninterrupted[0].records.size() == 5 * 8 + 2 * 2);
}

struct resumed_options {
  int most = 3;  // ranks
  std::string freeze{};
};

/// The toy model, with 1 rank and the most.
template <class P, class O, class S, class MakeReducer>
void resumes(const std::string& name, const O& optimizer, const S& schedule,
             const MakeReducer& make_reducer, const resumed_options& options = {},
             const auto&... also) {
  INFO(name);
  for (const int ranks : {1, options.most}) {
    const auto make = [&](threads comm, unsigned) {
      using run_type = trainer<labelled<P>, O, S, decltype(make_reducer(comm))>;
      return owned_run<labelled<P>, run_type>(
          optimizer, schedule, make_reducer(comm),
          trainer_options{.bucket_bytes = 512,
                          .check_stability = false,
                          .measure_gradient_noise = run_type::gradient_is_exact && ranks > 1 &&
                                                    !detail::optim::compresses_momentum<O>(),
                          .freeze = options.freeze});
    };
    const auto make_feed = [](threads comm) { return labelled_feed(comm); };
    resumes_to_the_bit(ranks, make, make_feed, also...);
  }
}

}  // namespace support
