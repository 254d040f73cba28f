// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The order of samples in shards, which are read sequentially: shards in a random order, their
// samples through a shuffle buffer, from which a random one is drawn while the next enters.
//
// The buffer is simulated on indices. So the order is a permutation and a function of (seed,
// epoch), every sample is used once an epoch whatever the number of ranks, and to resume within a
// shard is to seek. Each rank takes a contiguous range of the order in each update, and finds its
// samples within about `buffer` places of each other in one or two shards: its reads are nearly
// sequential.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/random.hpp>

namespace cordee::inline CORDEE_ABI::detail::images {

/// Shard s has the samples ends[s - 1] .. ends[s] - 1. A buffer of 0 or 1 keeps their order.
inline std::vector<std::uint32_t> shard_order(std::span<const std::size_t> ends, std::size_t buffer,
                                              std::uint64_t seed, std::int64_t epoch) {
  const std::size_t size = ends.empty() ? 0 : ends.back();
  expects(size <= std::numeric_limits<std::uint32_t>::max(), "shards: more than 2^32 - 1 samples");
  const auto below = [](random_sequence& random, std::size_t n) {
    return random.below(static_cast<std::uint32_t>(n));
  };
  // b = 0 is the sequence of data sets without shards.
  random_sequence shards(seed, purpose::shuffle, static_cast<std::uint64_t>(epoch), 1);
  random_sequence draws(seed, purpose::shuffle, static_cast<std::uint64_t>(epoch), 2);
  std::vector<std::size_t> sequence(ends.size());
  for (std::size_t s = 0; s < sequence.size(); ++s) {
    const std::size_t other = below(shards, s + 1);
    sequence[s] = sequence[other];
    sequence[other] = s;
  }
  std::vector<std::uint32_t> order, waiting;
  order.reserve(size);
  const auto draw = [&] { std::swap(waiting[below(draws, waiting.size())], waiting.back()); };
  for (const std::size_t s : sequence)
    for (std::size_t i = s == 0 ? 0 : ends[s - 1]; i < ends[s]; ++i) {
      waiting.push_back(static_cast<std::uint32_t>(i));
      if (waiting.size() < buffer) continue;
      draw();
      order.push_back(waiting.back());
      waiting.pop_back();
    }
  while (!waiting.empty()) {
    draw();
    order.push_back(waiting.back());
    waiting.pop_back();
  }
  return order;
}

}  // namespace cordee::inline CORDEE_ABI::detail::images
