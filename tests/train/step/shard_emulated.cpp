// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Sharded updates of GPUs, emulated, whose streams run late, beside unsharded ones and a CPU's.
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/sharded.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/optim/weight_average.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/testing/same_bits.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/deferred.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/sharded_runs.hpp"
#include "tests/support/written_model.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Of a GPU, whose copies may not overlap.
struct checked_copies : deferred {
  using deferred::deferred;
  void copy(void* out, const void* in, std::size_t size, stream s) const {
    const auto to = reinterpret_cast<std::uintptr_t>(out),
               from = reinterpret_cast<std::uintptr_t>(in);
    if (to < from + size && from < to + size) throw error("the ranges of a copy overlap");
    deferred::copy(out, in, size, s);
  }
};

struct eighth {
  double operator()(double) const { return 0.125; }
};

/// Weights, then slots, all whole, and the loss scale after four steps.
template <class P, class D, class O, class R>
std::vector<double> train_on(const D& device, const O& optimizer, const R& reducer,
                             std::int64_t poisoned, std::size_t bucket_bytes) {
  using Real = typename P::master;
  const int ranks = reducer.comm.size();
  written_model<P, D> model{.table = written_table, .on = device};
  if (reducer.comm.rank() == ranks - 1) model.poisoned_step = poisoned;
  trainer run{model, optimizer, eighth{}, reducer, {.bucket_bytes = bucket_bytes}};
  double scale = 0;
  for (int k = 0; k < 4; ++k) {
    batch<D> one;
    one.count = 1;
    one.global_samples = one.ranks = ranks;
    one.first_sample = 8 * reducer.comm.rank();
    const auto done = run.step(std::span(&one, 1), k);
    CHECK(done.applied == (k != poisoned));
    scale = done.loss_scale;
  }
  std::vector<double> all;
  const auto add = [&](span_on<const Real, D> plane) {
    const auto host = copy_to_host<Real, D>(device, plane, run.compute());
    for (const segment& s : written_table)
      if (s.kind != kind::statistic)
        all.insert(all.end(), &host[s.offset], &host[s.offset] + s.size);
  };
  add(run.weights());
  for (int k = 0; k < O::slots; ++k)
    if constexpr (requires { run.shard(); }) {
      buffer<Real, D> whole(device, run.weights().size);
      run.gather_slot(k, whole.span());
      add(whole.span());
    } else {
      add(run.slot(k));
    }
  all.push_back(scale);
  return all;
}

template <class P, class O, class Make>
auto train(int ranks, const O& optimizer, const Make& make, std::int64_t poisoned = -1,
           std::uint64_t seed = 1, std::size_t bucket_bytes = 1600) {
  return on_ranks(ranks, [&](threads comm) {
    return train_on<P>(checked_copies(seed), optimizer, make(comm), poisoned, bucket_bytes);
  });
}

template <class P, class O, class Make>
void has_the_bits(const O& optimizer, const Make& make, bool masters = false,
                  std::int64_t poisoned = -1) {
  for (const int ranks : {1, 2, 3, 5}) {
    CAPTURE(ranks);
    const auto whole = train<P>(ranks, optimizer, make, poisoned);
    for (const std::uint64_t seed : {0U, 1U, 2U})
      for (const auto& state : train<P>(ranks, optimizer, shard_of(make, masters), poisoned, seed))
        CHECK(same_bits(state, whole[0]));
  }
}

template <class O, class Make>
void has_the_norms(const O& optimizer, const Make& make, bool masters = false,
                   std::int64_t poisoned = -1) {
  for (const int ranks : {1, 2, 3, 5}) {
    CAPTURE(ranks);
    is_near(train<fp64>(ranks, optimizer, shard_of(make, masters), poisoned, 2),
            train<fp64>(ranks, optimizer, make, poisoned)[0]);
  }
}

}  // namespace

TEST_CASE("sharded on a GPU, emulated: element-wise optimizers have the bits of unsharded ones") {
#if defined(CORDEE_ALL_TESTS)
  has_the_bits<fp32>(sgd{.momentum = 0.9, .weight_decay = 0.01}, halving_on);
#endif
  has_the_bits<fp16>(adamw{.weight_decay = 0.1}, two_shot_on);
  has_the_bits<fp16>(sgd{.momentum = 0.9}, native_on, true, 1);
}

TEST_CASE("sharded on a GPU, emulated: master weights, and a step that one rank has a NaN in") {
#if defined(CORDEE_ALL_TESTS)
  has_the_bits<fp32>(adamw{.weight_decay = 0.1}, two_shot_on, true, 2);
#endif
  has_the_bits<fp16>(sgd{.momentum = 0.9}, two_shot_on, true, 1);
}

TEST_CASE("sharded on a GPU, emulated: norms are those of all ranks' pieces") {
  has_the_norms(lars{.momentum = 0.9, .weight_decay = 0.01}, ring_on);
  has_the_norms(lamb{}, ring_on, true, 1);
#if defined(CORDEE_ALL_TESTS)
  has_the_norms(lars_norm_of_sum{.momentum = 0.9, .weight_decay = 0.01}, two_shot_on);
  const weight_average average{clip{lamb{}, 0.5}, exponential_average{.decay = 0.9}};
  has_the_norms(average, two_shot_on);
  has_the_norms(average, ring_on, true, 2);  // masters, too, and a skipped step
#endif
}

TEST_CASE("sharded on a GPU, emulated: it has the bits of a CPU's sharded update") {
  const sgd optimizer{.momentum = 0.9, .weight_decay = 0.01};
  const auto on_cpu = on_ranks(3, [&](threads comm) {
    return train_on<fp16>(cpu(1), optimizer, sharded{ring{comm}}, -1, 1600);
  });
  for (const auto& state : train<fp16>(3, optimizer, shard_of(ring_on)))
    CHECK(same_bits(state, on_cpu[0]));
}

TEST_CASE("sharded on a GPU, emulated: what it holds, and captured graphs are refused") {
  on_ranks(3, [](threads comm) {
    const checked_copies device(1);
    written_model<fp16, checked_copies> model{.table = written_table, .on = device};
    trainer run{model, lamb{}, eighth{}, sharded{ring{comm}, true}, {.bucket_bytes = 1600}};
    // 24 units of 64 numbers in four buckets, of each of which one part may be a unit more
    CHECK(run.shard().bytes() <= (24 / 3 + 4) * 64 * 3 * sizeof(float));
    CHECK(run.arena_bytes() == model.plane_size() * sizeof(float) + run.shard().bytes());
    return 0;
  });
  const std::string refused = error_message([] {
    on_ranks(2, [](threads comm) {
      written_model<fp32, deferred> model{.table = written_table, .on = deferred(1)};
      trainer run{model, sgd{}, eighth{}, sharded{ring{comm}}, {.capture_graphs = true}};
      return 0;
    });
  });
  CHECK(refused.find("leave .capture_graphs out") != std::string::npos);
}
