// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Reducers other than the ring, through the trainer.
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/butterfly.hpp>
#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/halving_doubling.hpp>
#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/tree.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/testing/same_bits.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr auto slow_start = [](double epoch) { return 0.02 * std::min(1.0, (epoch + 1) / 20); };

// The weights by rank after 50 steps on T4 with rank-dependent data.
template <class Make>
auto weights_after(int ranks, const Make& make, std::size_t bucket_bytes = 1u << 20) {
  return on_ranks(ranks, [&](threads comm) {
    quadratic<fp32> model{.shift = 0.3 * (comm.rank() - 0.5 * (ranks - 1))};
    trainer run{
        model, sgd{.momentum = 0.9}, slow_start, make(comm), {.bucket_bytes = bucket_bytes}};
    for (int k = 0; k < 50; ++k) run.step(std::array{one_each(ranks)}, k);
    const auto all = run.weights().subspan(0, 256);
    return std::vector<float>(all.begin(), all.end());
  });
}

constexpr auto make_ring = [](threads comm) { return ring{comm}; };
template <class F>
void for_each_reducer(const F& f) {
  f([](threads comm) { return tree{comm}; });
  f([](threads comm) { return butterfly{comm}; });
  f([](threads comm) { return halving_doubling{comm}; });
  f([](threads comm) { return native{comm}; });
}

}  // namespace

TEST_CASE("tree, butterfly, halving_doubling and native train as ring does, for any bucket size") {
  for (const int ranks : rank_counts) {
    const auto by_ring = weights_after(ranks, make_ring);
    for_each_reducer([&](const auto& make) {
      CAPTURE(ranks);
      const auto by_rank = weights_after(ranks, make);
      for (const auto& weights : by_rank) CHECK(same_bits(weights, by_rank[0]));
      for (std::size_t i = 0; i < by_rank[0].size(); ++i)
        CHECK(close(static_cast<double>(by_rank[0][i]), static_cast<double>(by_ring[0][i]), 1e-5));
      CHECK(same_bits(weights_after(ranks, make, 512)[0], by_rank[0]));
    });
  }
}

TEST_CASE("compressed: every rank has the same bits, close to the ring's") {
  for (const int ranks : rank_counts) {
    CAPTURE(ranks);
    const auto by_ring = weights_after(ranks, make_ring);
    const auto by_rank = weights_after(ranks, [](threads comm) {
      return compressed{ring{comm}, fp16{}};
    });
    bool differs = false;
    for (const auto& weights : by_rank) CHECK(same_bits(weights, by_rank[0]));
    for (std::size_t i = 0; i < by_rank[0].size(); ++i) {
      CHECK(close(static_cast<double>(by_rank[0][i]), static_cast<double>(by_ring[0][i]), 1e-3));
      differs = differs || by_rank[0][i] != by_ring[0][i];
    }
    CHECK(differs == (ranks > 1));
  }
}

TEST_CASE("compressed: a skipped step clears the error feedback, and training continues") {
  for (const float bad : {HUGE_VALF, std::nanf("")})
    for (const auto& passed : on_ranks(3, [&](threads comm) {
           quadratic<fp32> model;
           if (comm.rank() == 1) model.poisons = {{4, 2, static_cast<double>(bad)}};
           trainer run{model, lars{.trust_coefficient = 0.02}, slow_start,
                       compressed{ring{comm}, fp16{}}};
           bool has_feedback = false, cleared = true, finite = true;
           for (int k = 0; k < 8; ++k) {
             const detail::train::step_outcome out = run.step(std::array{one_each(3)}, k);
             finite = finite && out.applied == (k != 4);
             for (const float e : run.reducer_slot(0)) {
               if (k == 3) has_feedback = has_feedback || e != 0;
               if (k == 4) cleared = cleared && e == 0;
             }
           }
           for (const float w : run.weights()) finite = finite && std::isfinite(w);
           return has_feedback && cleared && finite;
         }))
      CHECK(passed);
}
