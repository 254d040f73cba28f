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
#include <cordee/comm/reducers/adasum.hpp>
#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/gathered.hpp>
#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/majority_vote.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/server.hpp>
#include <cordee/nn/adversarial.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/overlapped.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/schedule/adaptive_batch.hpp>
#include <cordee/schedule/auto_wu.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/schedule/plateau.hpp>
#include <cordee/schedule/then.hpp>
#include <cordee/schedule/warmup.hpp>
#include <cordee/train/kfac/kfac.hpp>
#include <cordee/train/measure/evaluate.hpp>

#include "tests/checkpoint/resumed_run.hpp"
#include "tests/support/bits.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/small_network.hpp"

using namespace cordee;
using namespace cordee::detail::checkpoints;
using namespace support;

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
                plateau{.learning_rate = 0.05, .patience = 0, .threshold = 0.9}, over_ring, {},
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
  resumes<bf16>("sgd in bf16", sgd{.momentum = 0.9}, falling, over_ring);
  const auto over_int8 = [](threads comm) { return compressed{ring{comm}, int8{}}; };
  for (const std::string freeze : {"", "W1, b2", "b1", "W2, b2"}) {
    CAPTURE(freeze);
    const resumed_options options{.freeze = freeze};
    resumes<fp32>("compressed", sgd{.momentum = 0.9}, falling, over_int8, options);
    resumes<fp32>("local steps", local_steps{sgd{.momentum = 0.9}, 4}, falling, over_ring, options);
  }
  const overlapped on_their_way{outer_momentum{local_steps{sgd{}, 4}, {.mixing = 0.25}}, 3};
  resumes<fp32>("averages of step 3, accepted in step 6", on_their_way, falling, over_ring);
  resumes<fp32>("the largest of each tensor", sgd{.momentum = 0.9}, falling, [](threads comm) {
    return gathered{comm, top_k{.fraction = 0.5}};
  });
  resumes<fp32>("the majority of momenta's signs", sgd{.momentum = 0.9}, falling,
                [](threads comm) { return majority_vote{comm}; });
  resumes<fp32>("Adasum", sgd{.momentum = 0.9}, falling, [](threads comm) { return adasum{comm}; });
  resumes<fp32>("gossip", decentlam{.momentum = 0.5}, falling, [](threads comm) {
    return gossip{comm, topologies::one_peer{}};
  });
}
TEST_CASE("resume: an asynchronous server in lockstep, its weights and its clock") {
  // Two pushes are an update: sums of two do not depend on the order in which they arrive.
  const auto lockstep = [](threads comm) {
    return server{comm, asynchronous{.softsync = 1, .staleness_bound = 0}};
  };
  resumes<fp32>("server", local_steps{sgd{.momentum = 0.9}, 1}, falling, lockstep, {.most = 2});
}
#if defined(CORDEE_ALL_TESTS)
#define RESUMED_PRECISIONS fp16, bf16, int8
#else
#define RESUMED_PRECISIONS int8
#endif
TEST_CASE_TEMPLATE(
    "resume: a network of 16 bits or in int8, whose batch norms, and int8's ranges, "
    "are statistics",
    P, RESUMED_PRECISIONS) {
  using net = resnet<8, P, cpu, small>;
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
    run->fit(feed, checkpoint_epoch,
             checkpoint{.folder = files.file("runs"), .every = {.steps = 6}});
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
    detail::train::run_state state = run->state();
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
    run->fit(feed, checkpoint_epoch,
             checkpoint{.folder = files.file("runs"), .every = {.steps = 6}});
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
