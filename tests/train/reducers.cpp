// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Reducers other than the ring, through the trainer.
#include <cstring>

#include <doctest/doctest.h>

#include <cordee/comm/butterfly.hpp>
#include <cordee/comm/halving.hpp>
#include <cordee/comm/narrow.hpp>
#include <cordee/comm/native.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/tree.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr auto slow_start = [](double epoch) { return 0.02 * std::min(1.0, (epoch + 1) / 20); };

// 200 steps on T4 with rank-dependent data, weights by rank.
template <class Make>
auto weights_after(int ranks, const Make& make, std::size_t bucket_bytes = 1u << 20) {
  return on_ranks(ranks, [&](threads link) {
    quadratic<fp32> model{.shift = 0.3 * (link.rank() - 0.5 * (ranks - 1))};
    trainer run{
        model, sgd{.momentum = 0.9}, slow_start, make(link), {.bucket_bytes = bucket_bytes}};
    for (int k = 0; k < 200; ++k) run.step(std::array{one_each(ranks)}, k);
    const auto all = run.weights().subspan(0, 256);
    return std::vector<float>(all.begin(), all.end());
  });
}
bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

constexpr auto rings = [](threads link) { return ring{link}; };
template <class F>
void each(const F& f) {
  f([](threads link) { return tree{link}; });
  f([](threads link) { return butterfly{link}; });
  f([](threads link) { return halving{link}; });
  f([](threads link) { return native{link}; });
}

}  // namespace

TEST_CASE("tree, butterfly, halving and native train as the ring does, cut as one likes") {
  for (const int ranks : rank_counts) {
    const auto by_ring = weights_after(ranks, rings);
    each([&](const auto& make) {
      CAPTURE(ranks);
      const auto by_rank = weights_after(ranks, make);
      for (const auto& weights : by_rank) CHECK(same_bits(weights, by_rank[0]));
      for (std::size_t i = 0; i < by_rank[0].size(); ++i)
        CHECK(close(static_cast<double>(by_rank[0][i]), static_cast<double>(by_ring[0][i]), 1e-5));
      CHECK(same_bits(weights_after(ranks, make, 512)[0], by_rank[0]));
    });
  }
}

TEST_CASE("over a narrow wire every rank has the same bits, near the ring's") {
  for (const int ranks : rank_counts) {
    CAPTURE(ranks);
    const auto by_ring = weights_after(ranks, rings);
    const auto by_rank = weights_after(ranks, [](threads link) {
      return narrow{ring{link}, fp16{}};
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

TEST_CASE("narrow: a skipped step leaves its memory cleared, and training goes on") {
  for (const float bad : {HUGE_VALF, std::nanf("")})
    for (const auto& finite : on_ranks(3, [&](threads link) {
           quadratic<fp32> model;
           if (link.rank() == 1) model.poisons = {{4, 2, static_cast<double>(bad)}};
           trainer run{model, lars{.trust = 0.02}, slow_start, narrow{ring{link}, fp16{}}};
           bool remembered = false, cleared = true, well = true;
           for (int k = 0; k < 8; ++k) {
             const step_outcome out = run.step(std::array{one_each(3)}, k);
             well = well && out.applied == (k != 4);
             for (const float e : run.reducer_slot(0)) {
               if (k == 3) remembered = remembered || e != 0;
               if (k == 4) cleared = cleared && e == 0;
             }
           }
           for (const float w : run.weights()) well = well && std::isfinite(w);
           return remembered && cleared && well;
         }))
      CHECK(finite);
}
