// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Sharded updates beside unsharded ones: tensors that the ranks' ranges cut, of odd lengths.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/sharded.hpp>
#include <cordee/comm/reducers/two_shot.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/parameter_groups.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/optim/weight_average.hpp>
#include <cordee/testing/same_bits.hpp>
#include <cordee/train/step/shard.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/cut_model.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/sharded_runs.hpp"

using namespace cordee;
using namespace support;

namespace {

template <class P, class O, class Make>
auto train(int ranks, const O& optimizer, const Make& make, std::int64_t poisoned = -1) {
  return on_ranks(ranks, [&](threads comm) {
    cut_model<P> model{.rank = comm.rank()};
    if (comm.rank() == comm.size() - 1) model.poisoned_step = poisoned;
    trainer run{model, optimizer, cut_rate{}, make(comm), {.bucket_bytes = 1200 * sizeof(float)}};
    REQUIRE(run.buckets().size() > 1);
    std::vector<bool> applied;
    for (int k = 0; k < 4; ++k) {
      const bool now = run.step(std::array{one_each(comm.size())}, k).applied;
      CHECK(now == (k != poisoned));
    }
    return whole_state(run, O::slots);
  });
}

template <class O, class Make>
void has_the_bits(const O& optimizer, const Make& make, std::int64_t poisoned = -1) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    CAPTURE(ranks);
    const auto whole = train<fp32>(ranks, optimizer, make, poisoned);
    for (const auto& state : train<fp32>(ranks, optimizer, shard_of(make), poisoned))
      CHECK(same_bits(state, whole[0]));
  }
}

template <class O, class Make>
void has_the_norms(const O& optimizer, const Make& make, std::int64_t poisoned = -1,
                   bool masters = false) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    CAPTURE(ranks);
    is_near(train<fp64>(ranks, optimizer, shard_of(make, masters), poisoned),
            train<fp64>(ranks, optimizer, make, poisoned)[0]);
  }
}

}  // namespace

TEST_CASE("sharded: element-wise optimizers have the bits of unsharded ones") {
  has_the_bits(sgd{.momentum = 0.9, .weight_decay = 0.01}, halving_on);
  has_the_bits(adamw{.weight_decay = 0.1}, two_shot_on);
  has_the_bits(adamw{.weight_decay = 0.1}, native_on, 1);
}

TEST_CASE("sharded: master weights, too, whose plane the gradients overwrite") {
  constexpr auto with_masters = [](threads comm) { return sharded{two_shot{comm}, true}; };
  const adamw optimizer{.weight_decay = 0.1};
  for (const int ranks : {1, 2, 3, 5, 8}) {
    CAPTURE(ranks);
    const auto whole = train<fp32>(ranks, optimizer, two_shot_on, 2);  // one step is skipped
    for (const auto& state : train<fp32>(ranks, optimizer, with_masters, 2))
      CHECK(same_bits(state, whole[0]));
  }
}

TEST_CASE("sharded: a step that is not finite on one rank is skipped on all") {
  has_the_bits(adamw{.weight_decay = 0.1}, two_shot_on, 2);
  has_the_norms(lamb{}, ring_on, 1);
}

TEST_CASE("sharded: norms of tensors that the cut divides are those of the whole") {
  has_the_norms(lars{.momentum = 0.9, .weight_decay = 0.01}, ring_on);
  has_the_norms(lars_norm_of_sum{.momentum = 0.9, .weight_decay = 0.01}, two_shot_on);
  has_the_norms(lamb{}, ring_on);
}

TEST_CASE("sharded: clipping, averages of weights and groups") {
  const weight_average average{clip{lamb{}, 0.5}, exponential_average{.decay = 0.9}};
  has_the_norms(average, two_shot_on);
  has_the_norms(average, two_shot_on, 1, true);  // masters, too, and a skipped step
  has_the_norms(parameter_groups{lamb{}, parameter_group{"third.", lamb{.weight_decay = 0}, 0.5}},
                two_shot_on);
}

TEST_CASE("sharded: a rank of eight holds an eighth of the slots") {
  on_ranks(8, [](threads comm) {
    cut_model<fp32> model{.rank = comm.rank()};
    trainer run{model, lamb{}, cut_rate{}, sharded{ring{comm}}};
    // 31 units of 64 numbers: the largest part has 4
    CHECK(run.shard().slot_bytes() <= 4 * 64 * 2 * sizeof(float));
    CHECK(run.shard().bytes() == run.shard().slot_bytes() / 2 * 3);
    CHECK(contains(run.shard().describe(), " bytes in all"));
    CHECK(contains(run.shard().describe(), "bytes of optimizer slots on this rank, of 15,872 "));
    CHECK(run.arena_bytes() == 2 * cut_plane * sizeof(float) + run.shard().bytes());
    const auto plan = run.plan_memory(1);
    CHECK(plan.bytes("optimizer slots") == run.shard().slot_bytes());
    CHECK(plan.bytes("weights") + plan.bytes("gradients") + plan.bytes("optimizer slots") +
              plan.bytes("this rank's weights") ==
          run.arena_bytes());
    CHECK(contains(error_message([&] { (void)run.slot(0); }),
                   "trainer: with sharded no rank holds a whole slot: gather_slot(k) is that of "
                   "all"));
    return 0;
  });
}

TEST_CASE("sharded: evaluation and saving use the average of weights") {
  const auto average_on = [](const auto& make) {
    return on_ranks(3, [&](threads comm) {
      cut_model<fp32> model{.rank = comm.rank()};
      trainer run{model, weight_average{sgd{}, exponential_average{.decay = 0.5}}, cut_rate{},
                  make(comm)};
      for (int k = 0; k < 3; ++k) CHECK(run.step(std::array{one_each(3)}, k).applied);
      std::vector<float> average;
      run.with_mean_model([&] { average = whole_state(run, 0); });
      CHECK_FALSE(same_bits(average, whole_state(run, 0)));
      return average;
    });
  };
  const auto whole = average_on(two_shot_on);
  for (const auto& average : average_on(shard_of(two_shot_on))) CHECK(same_bits(average, whole[0]));
}

TEST_CASE("sharded: frozen layers have no part") {
  const auto frozen_on = [](int ranks, const auto& make) {
    return on_ranks(ranks, [&](threads comm) {
      cut_model<fp32> model{.rank = comm.rank()};
      trainer run{model, adamw{}, cut_rate{}, make(comm), {.freeze = "first."}};
      for (int k = 0; k < 3; ++k) CHECK(run.step(std::array{one_each(ranks)}, k).applied);
      return whole_state(run, 0);
    });
  };
  const auto whole = frozen_on(3, two_shot_on);
  for (const auto& state : frozen_on(3, shard_of(two_shot_on))) CHECK(same_bits(state, whole[0]));
}

TEST_CASE("sharded: a rank of eight holds an eighth of slots and master weights") {
  on_ranks(8, [](threads comm) {
    cut_model<fp32> model{.rank = comm.rank()};
    trainer run{model, lamb{}, cut_rate{}, sharded{ring{comm}, true}};
    CHECK(run.shard().bytes() <= 4 * 64 * 3 * sizeof(float));
    CHECK(7 * run.shard().bytes() <= 3 * cut_trainable * sizeof(float));
    CHECK(run.arena_bytes() == cut_plane * sizeof(float) + run.shard().bytes());
    CHECK(run.plan_memory(1).bytes("gradients") == 0);
    CHECK(run.plan_memory(1).bytes("weights") == cut_plane * sizeof(float));
    CHECK(contains(run.shard().describe(), " bytes of optimizer slots and master weights on this"));
    return 0;
  });
  const auto message = [](const auto& model, detail::train::frozen_layers frozen) {
    return error_message([&] {
      on_ranks(2, [&](threads comm) {
        auto own = model;
        trainer run{own, sgd{}, cut_rate{}, sharded{ring{comm}, true}, {.freeze = frozen}};
        return 0;
      });
    });
  };
  CHECK(contains(message(cut_model<fp32>{}, "first."), "those of frozen layers too"));
  CHECK(contains(message(quadratic<fp32>{}, {}), "which this model may read in a pass"));
}

TEST_CASE("sharded: slots that begin as the weights and frozen layers are refused") {
  const auto message = error_message([] {
    on_ranks(2, [](threads comm) {
      cut_model<fp32> model{.rank = comm.rank()};
      trainer run{model,
                  weight_average{sgd{}, exponential_average{}},
                  cut_rate{},
                  sharded{two_shot{comm}},
                  {.freeze = "first."}};
      return 0;
    });
  });
  CHECK(contains(message, "sharded: this optimizer's slots begin as the weights"));
}
