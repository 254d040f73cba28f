// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A run that is resumed equals the uninterrupted one, to the bit: weights, slots, losses.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/checkpoint/checkpoint.hpp>
#include <cordee/comm/adasum.hpp>
#include <cordee/comm/compressed.hpp>
#include <cordee/comm/gathered.hpp>
#include <cordee/comm/gossip.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/server.hpp>
#include <cordee/nn/adversarial.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/schedule/adaptive_batch.hpp>
#include <cordee/schedule/auto_wu.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/schedule/plateau.hpp>
#include <cordee/schedule/then.hpp>
#include <cordee/schedule/warmup.hpp>
#include <cordee/train/evaluate.hpp>
#include <cordee/train/kfac.hpp>

#include "tests/checkpoint/labelled.hpp"
#include "tests/support/bits.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/small_network.hpp"

using namespace cordee;
using namespace cordee::detail::checkpoints;
using namespace support;

namespace {

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

constexpr std::int64_t stopped_at = 6;  // of 11 updates, in the middle of the second epoch
constexpr double until = stopped_at * 6 / 22.0, whole = 3;

template <class Run>
ending end_of(Run& run, std::vector<double> records) {
  ending e{{}, std::move(records)};
  for (const auto& p : saved_planes(run))
    for (const segment& s : p.segments)
      for (std::size_t i = 0; i < s.size; ++i)
        e.numbers.push_back(static_cast<double>(p.plane[s.offset + i]));
  return e;
}

constexpr auto copied = [](const auto& x) { return x; };

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
    run->fit(feed, whole, recorder{&records, stopped_at}, copied(also)...);
    return end_of(*run, records);
  });
  on_ranks(ranks, [&](threads comm) {
    const auto run = make(comm, 0u);
    auto feed = make_feed(comm);
    CHECK_FALSE(run->resume(runs));
    std::vector<double> records;
    run->fit(feed, until, recorder{&records}, copied(also)...,
             checkpoint{.folder = runs, .every = {.steps = 4}});
    CHECK(run->steps_taken() == stopped_at);
    return 0;
  });
  CHECK(run_folder(runs).steps() == std::vector<std::int64_t>{6, 4});
  const auto resumed = on_ranks(ranks, [&](threads comm) {
    std::vector<double> records;
    const auto run = make(comm, 1u);
    auto feed = make_feed(comm);
    CHECK(run->resume(runs));
    CHECK(run->steps_taken() == stopped_at);
    run->fit(feed, whole, recorder{&records, stopped_at}, copied(also)...,
             checkpoint{.folder = runs, .every = {.epochs = 1}});
    return end_of(*run, records);
  });
  for (std::size_t r = 0; r < resumed.size(); ++r) {
    CHECK(resumed[r].numbers.size() > 9);
    CHECK(resumed[r] == uninterrupted[r]);
  }
  CHECK(uninterrupted[0].records.size() == 5 * 8 + 2 * 2);
}

/// The toy model, with 1 rank and `most` ranks.
template <class P, class O, class S, class MakeReducer>
void resumes(const std::string& name, const O& optimizer, const S& schedule,
             const MakeReducer& make_reducer, int most = 3, const auto&... also) {
  INFO(name);
  for (const int ranks : {1, most}) {
    const auto make = [&](threads comm, unsigned) {
      using run_type = trainer<labelled<P>, O, S, decltype(make_reducer(comm))>;
      return owned_run<labelled<P>, run_type>(
          optimizer, schedule, make_reducer(comm),
          trainer_options{.bucket_bytes = 512,
                          .check_stability = false,
                          .measure_gradient_noise = run_type::gradient_is_exact && ranks > 1});
    };
    const auto make_feed = [](threads comm) { return labelled_feed(comm); };
    resumes_to_the_bit(ranks, make, make_feed, also...);
  }
}

/// Halves its learning rate when the loss has risen.
struct cautious {
  std::array<double, 2> numbers{1, 1e300};  // factor, last loss
  double operator()(double) const { return 0.1 * numbers[0]; }
  void observe(const observation& seen) {
    numbers = {seen.loss > numbers[1] ? numbers[0] / 2 : numbers[0], seen.loss};
  }
  std::span<double> state() { return numbers; }
};

const then plateaus{constant{0.05}, 0.5,
                    training_plateau{.learning_rate = 0.1, .patience = 0, .threshold = 0.9}};

constexpr auto over_ring = [](threads comm) { return ring{comm}; };
constexpr auto synthetic_feed = [](threads comm) {
  return loader{synthetic{.extent = {1, 16, 16}, .classes = 4, .samples = 22, .seed = 3},
                comm,
                {.global_batch = 6, .seed = 5}};
};

/// Ranks' gradients differ by a constant, so their noise scale grows as the mean gradient falls.
struct shifted : quadratic<fp64> {
  static constexpr extent input{1, 4, 4};
  static constexpr int classes = 4;
  explicit shifted(int rank) : quadratic<fp64>{.shift = 0.25 * rank} {}
};

}  // namespace

TEST_CASE("resume: exact reducers, micro-batches, batches across epochs, an adaptive schedule") {
  resumes<fp32>("lars", lars{.trust_coefficient = 0.02}, warmup{0.5, cautious{}}, over_ring);
  resumes<fp64>("adamw in fp64", adamw{}, falling, over_ring);
  resumes<fp64>("a plateau", sgd{}, plateaus, over_ring);
  resumes<fp64>("a plateau of the validation", sgd{},
                plateau{.learning_rate = 0.05, .patience = 0, .threshold = 0.9}, over_ring, 3,
                validation{synthetic{.extent = {1, 4, 4}, .classes = 4, .samples = 7, .seed = 4}});
  resumes<fp64>("AutoWU", sgd{}, auto_wu{.epochs = 4, .min_learning_rate = 1e-3}, over_ring);
}
TEST_CASE("resume: batches that noise has decided, one before the checkpoint and more after") {
  const folder files;
  const std::string runs = files.file("runs");
  on_ranks(2, [&](threads comm) {
    const auto make = [&](shifted& model) {
      return trainer{model,
                     sgd{.momentum = 0.9},
                     adaptive_batch{constant{0.02}, 8, 8, 0.5},
                     ring{comm},
                     {.measure_gradient_noise = true}};
    };
    shifted whole_model(comm.rank()), before(comm.rank()), after(comm.rank());
    auto whole_run = make(whole_model), first = make(before), second = make(after);
    auto whole_feed = labelled_feed(comm), feed = labelled_feed(comm), fresh = labelled_feed(comm);
    whole_run.fit(whole_feed, 9);
    first.fit(feed, 3.5, checkpoint{.folder = runs});
    CHECK(second.resume(runs));
    CHECK_FALSE(first.schedule().decided.empty());
    CHECK(second.schedule().decided == first.schedule().decided);
    second.fit(fresh, 9);
    CHECK(second.schedule().decided.size() > first.schedule().decided.size());
    CHECK(second.schedule().decided == whole_run.schedule().decided);
    CHECK(second.steps_taken() == whole_run.steps_taken());
    CHECK(end_of(second, {}) == end_of(whole_run, {}));
    return 0;
  });
}
TEST_CASE("resume: loss scaling, error feedback, local steps, gossip") {
  resumes<fp16>("sgd in fp16", sgd{.momentum = 0.9}, falling, over_ring);
  resumes<fp32>("compressed", sgd{.momentum = 0.9}, falling, [](threads comm) {
    return compressed{ring{comm}, int8{}};
  });
  resumes<fp32>("the largest of each tensor", sgd{.momentum = 0.9}, falling, [](threads comm) {
    return gathered{comm, top_k{.fraction = 0.5}};
  });
  resumes<fp32>("Adasum", sgd{.momentum = 0.9}, falling, [](threads comm) { return adasum{comm}; });
  resumes<fp32>("local steps", local_steps{sgd{.momentum = 0.9}, 4}, falling, over_ring);
  resumes<fp32>("gossip", decentlam{.momentum = 0.5}, falling, [](threads comm) {
    return gossip{comm, topologies::one_peer{}};
  });
}
TEST_CASE("resume: an asynchronous server in lockstep, its weights and its clock") {
  // Two pushes are an update: sums of two do not depend on the order in which they arrive.
  const auto lockstep = [](threads comm) {
    return server{comm, asynchronous{.softsync = 1, .staleness_bound = 0}};
  };
  resumes<fp32>("server", local_steps{sgd{.momentum = 0.9}, 1}, falling, lockstep, 2);
}
TEST_CASE("resume: a network in int8, whose ranges and batch norms are statistics") {
  using net = resnet<8, int8, cpu, small>;
  const auto make = [](threads comm, unsigned seed) {
    using run_type = trainer<net, sgd, decltype(steady), ring<threads>>;
    return owned_run<net, run_type>(sgd{}, steady, ring{comm}, trainer_options{.seed = seed});
  };
  for (const int ranks : {1, 3}) resumes_to_the_bit(ranks, make, synthetic_feed);
}
TEST_CASE("resume: kfac between two computations of its factors") {
  using net = resnet<8, fp32, cpu, small>;
  using run_type = trainer<net, kfac<velocity_sgd>, decltype(steady), ring<threads>>;
  const auto make = [](threads comm, unsigned seed) {
    return owned_run<net, run_type>(
        kfac{velocity_sgd{.momentum = 0.9}, 0.03, 1, 4}, steady, ring{comm},
        trainer_options{.batch_norm_over = 0, .seed = seed});  // applied: 6, not a multiple of 4
  };
  for (const int ranks : {1, 3}) resumes_to_the_bit(ranks, make, synthetic_feed);

  const folder files;
  on_ranks(3, [&](threads comm) {
    const auto run = make(comm, 0u);
    auto feed = synthetic_feed(comm);
    run->fit(feed, until, checkpoint{.folder = files.file("runs"), .every = {.steps = 6}});
    CHECK_FALSE(run->state().preconditioner.empty());
    return 0;
  });
  on_ranks(2, [&](threads comm) {  // which own other layers: the first step computes factors
    const auto run = make(comm, 1u);
    CHECK(rank_change(3, *run).find("; the preconditioner's factors are computed anew") !=
          std::string::npos);
    CHECK(run->resume(files.file("runs")));
    CHECK(run->state().preconditioner.empty());
    auto feed = synthetic_feed(comm);
    CHECK(run->step(feed.next(), 2).applied);
    run_state state = run->state();
    CHECK_FALSE(state.preconditioner.empty());
    state.preconditioner.pop_back();
    CHECK_THROWS_WITH_AS(run->restore(state), doctest::Contains("of other layers"), usage_error);
    return 0;
  });
}
TEST_CASE("resume: adversarial images by the weights of the step before") {
  using net = adversarial<resnet<8, fp32, cpu, small>>;
  const auto make = [](threads comm, unsigned) {  // of one seed, of which the images are, too
    using run_type = trainer<net, sgd, decltype(steady), ring<threads>>;
    return owned_run<net, run_type>(sgd{}, steady, ring{comm}, trainer_options{.seed = 7});
  };
  for (const int ranks : {1, 3}) resumes_to_the_bit(ranks, make, synthetic_feed);

  const folder files;
  std::vector<double> saved;
  on_ranks(3, [&](threads comm) {
    const auto run = make(comm, 0u);
    auto feed = synthetic_feed(comm);
    run->fit(feed, until, checkpoint{.folder = files.file("runs"), .every = {.steps = 6}});
    if (comm.rank() == 0) saved = run->state().model;
    return 0;
  });
  CHECK_FALSE(saved.empty());
  on_ranks(2, [&](threads comm) {  // other ranks go on with the same stale weights
    const auto run = make(comm, 1u);
    CHECK(run->resume(files.file("runs")));
    CHECK(run->state().model == saved);
    return 0;
  });
}
