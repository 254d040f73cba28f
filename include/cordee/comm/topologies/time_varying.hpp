// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Topologies that change from round to round: each rank receives from one other, with weight 1/2.
//
// With one message a round, the minimum, ranks mix over a period as well as on a dense graph: the
// one-peer exponential graph and the XOR matchings on 2^d ranks give the exact mean after d rounds
// (Ying et al. 2021). Not all are stable under momentum: see comm/topologies/stability.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <cordee/comm/topologies/fixed.hpp>
#include <cordee/core/algorithm.hpp>
#include <cordee/core/random.hpp>

namespace cordee::inline CORDEE_ABI {

namespace topologies {

/// Receives from the rank 2^(t mod ceil(log2 p)) before it; directed.
struct one_peer {
  /// ceil(log2(size)), at least 1.
  [[nodiscard]] int period(int size) const { return std::max(1, detail::comm::powers_below(size)); }
  /// One cycle of all ranks.
  [[nodiscard]] std::vector<int> dimensions(int size) const { return {size}; }
  /// The neighbour of this round; none for a single rank.
  [[nodiscard]] std::vector<edge> in_edges(int rank, int size, std::int64_t round) const {
    if (size == 1) return {};
    return {{detail::comm::wrapped(rank - (1 << round % period(size)), size), 0.5}};
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const { return "one-peer exponential graph"; }
};

/// Exchanges with the rank whose number differs in bit t mod log2(p).
struct xor_matching {
  static constexpr bool symmetric = true;  ///< See Topology.

  /// log2(size), at least 1.
  /// @throws usage_error unless `size` is a power of two.
  [[nodiscard]] int period(int size) const {
    return std::max(1, static_cast<int>(dimensions(size).size()));
  }
  /// log2(size) cycles of two.
  /// @throws usage_error unless `size` is a power of two.
  [[nodiscard]] std::vector<int> dimensions(int size) const {
    expects(detail::comm::is_power_of_two(size),
            "xor_matching: the number of ranks must be a power of two; odd_even and "
            "random_matching serve any even number, one_peer any number");
    return std::vector<int>(static_cast<std::size_t>(detail::comm::powers_below(size)), 2);
  }
  /// The neighbour of this round; none for a single rank.
  /// @throws usage_error unless `size` is a power of two.
  [[nodiscard]] std::vector<edge> in_edges(int rank, int size, std::int64_t round) const {
    const int rounds = period(size);
    if (size == 1) return {};
    return {{rank ^ 1 << round % rounds, 0.5}};
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const { return "XOR matchings"; }
};

/// Exchanges with its left and right neighbour on a ring alternately.
struct odd_even {
  static constexpr bool symmetric = true;  ///< See Topology.

  /// 2: one neighbour, then the other.
  [[nodiscard]] int period(int) const { return 2; }
  /// The neighbour of this round; none for a single rank.
  /// @throws usage_error for any other odd number of ranks.
  [[nodiscard]] std::vector<edge> in_edges(int rank, int size, std::int64_t round) const {
    if (size == 1) return {};
    expects(size % 2 == 0,
            "odd_even: the number of ranks must be even; ring and one_peer serve any number");
    const bool right = (rank + round) % 2 == 0;
    return {{detail::comm::wrapped(right ? rank + 1 : rank - 1, size), 0.5}};
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const { return "odd-even matchings of a ring"; }
};

/// A perfect matching drawn from the seed and the round, the same on every rank.
struct random_matching {
  static constexpr bool symmetric = true;  ///< See Topology.
  /// See Topology; comm/topologies/stability.hpp computes second moments.
  static constexpr bool uniform_matching = true;

  /// Seed of the matchings. Range: any, the same on every rank.
  std::uint64_t seed = 0;

  /// 0: rounds never repeat.
  [[nodiscard]] int period(int) const { return 0; }
  /// The neighbour of this round; none for a single rank.
  /// @throws usage_error for any other odd number of ranks.
  [[nodiscard]] std::vector<edge> in_edges(int rank, int size, std::int64_t round) const {
    if (size == 1) return {};
    expects(size % 2 == 0,
            "random_matching: the number of ranks must be even; ring and one_peer serve any "
            "number");
    std::vector<int> order(static_cast<std::size_t>(size));
    for (int i = 0; int& any : order) any = i++;
    random_sequence random(seed, purpose::matching, 0, static_cast<std::uint64_t>(round));
    std::size_t position = 0;
    for (std::size_t i = order.size(); i-- > 0;) {
      std::swap(order[i], order[random.below(static_cast<std::uint32_t>(i + 1))]);
      if (order[i] == rank) position = i;
    }
    return {{order[position ^ 1], 0.5}};
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const { return "random matchings"; }
};

}  // namespace topologies

}  // namespace cordee::inline CORDEE_ABI
