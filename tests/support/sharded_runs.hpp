// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Sharded updates beside unsharded ones, for trainers of any device.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/halving_doubling.hpp>
#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/sharded.hpp>
#include <cordee/comm/reducers/two_shot.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/testing/same_bits.hpp>

namespace support {

using namespace cordee;

inline constexpr auto ring_on = [](threads comm) { return ring{comm}; };
inline constexpr auto two_shot_on = [](threads comm) { return two_shot{comm}; };
inline constexpr auto native_on = [](threads comm) { return native{comm}; };
inline constexpr auto halving_on = [](threads comm) { return halving_doubling{comm}; };
inline constexpr auto shard_of = [](auto make, bool masters = false) {
  return [=](threads comm) { return sharded{make(comm), masters}; };
};

/// Ranks' states in fp64 of a few sharded steps, and the unsharded one. Sums of squares are of
/// other pieces: they, and ratios of their roots, differ by n roundings, and what moves by ratios
/// by a few of these; ranks agree to the bit.
template <class States, class State>
void is_near(const States& shards, const State& whole) {
  for (const auto& state : shards) {
    CHECK(same_bits(state, shards[0]));
    REQUIRE(state.size() == whole.size());
    double most = 0;
    for (std::size_t i = 0; i < state.size(); ++i)
      most = std::max(most, std::abs(state[i] - whole[i]));
    CHECK(most <= 1000 * 4 * std::numeric_limits<double>::epsilon());
  }
}

}  // namespace support
