// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A trainer on T4 that goes on from another one's planes and run_state.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/server.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/bits.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"
#include "tests/train/resumed_difference.hpp"

namespace support {

template <class P, class O, class MakeReducer>
void continues(const std::string& name, const O& optimizer, const MakeReducer& make_reducer,
               std::vector<poison> poisons = {}, int ranks = 2) {
  INFO(name << ", ranks: " << ranks);
  const auto by_rank = on_ranks(ranks, [&](threads comm) {
    using run_type = trainer<quadratic<P>, O, decltype(slow_start), decltype(make_reducer(comm))>;
    std::deque<quadratic<P>> models;
    const auto make = [&] {
      models.push_back({.shift = spread(comm.rank(), comm.size())});
      if (comm.rank() == 1) models.back().poisons = poisons;
      return std::make_unique<run_type>(
          models.back(), optimizer, slow_start, make_reducer(comm),
          trainer_options{.bucket_bytes = 512, .loss_scaling = {.initial = 256, .interval = 3}});
    };
    const auto train = [&](run_type& run, int k) {
      run.model().step = k;  // of the poisons
      return run.step(std::array{one_each(comm.size())}, k);
    };
    return resumed_difference(make, train, 5, 6);
  });
  for (const std::string& text : by_rank) CHECK(text == "");
}

inline constexpr auto make_ring = [](threads comm) { return ring{comm}; };
inline constexpr auto make_compressed = [](threads comm) { return compressed{ring{comm}, int8{}}; };
inline constexpr auto make_gossip = [](threads comm) {
  return gossip{comm, topologies::random_matching{.seed = 3}};
};
inline constexpr auto make_one_peer = [](threads comm) {
  return gossip{comm, topologies::one_peer{}};
};
// Two pushes are an update: sums of two do not depend on the order in which they arrive.
inline constexpr auto make_lockstep = [](threads comm) {
  return server{comm, asynchronous{.softsync = 1, .staleness_bound = 0}};
};

template <class O>
void continues_exactly(const std::string& name, const O& optimizer) {
  for (const int ranks : {1, 2, 3}) {
    continues<fp32>(name + " over ring", optimizer, make_ring, {}, ranks);
    continues<fp32>(name + " over compressed ring", optimizer, make_compressed, {{3, 1}}, ranks);
    continues<fp32>(name + ", local steps", local_steps{optimizer, 3}, make_ring, {{3, 1}}, ranks);
  }
}

}  // namespace support
