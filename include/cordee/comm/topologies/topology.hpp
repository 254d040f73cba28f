// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The topology of gossip: from which ranks a rank receives, and with which weights.
//
//   required
//     period(size)                    rounds until it repeats; 0 for a random one, whose rounds all
//                                     have equally many edges
//     in_edges(rank, size, round)     the ranks that `rank` receives from, with their weights
//     describe()
//   optional properties
//     symmetric           (false)     in each round, W is symmetric
//     uniform_matching    (false)     each round is a perfect matching, all equally likely, of one
//                                     weight
//     dimensions(size)                ranks are the elements, row-major, of Z_a x Z_b x ... with
//                                     these orders, and weights depend only on differences
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

namespace topologies {
/// A message from `peer`, with its weight in the receiver's mean.
struct edge {
  int peer;       ///< The rank that sends.
  double weight;  ///< Weight of its numbers in the receiver's mean.
};
}  // namespace topologies

/// The rows of a doubly stochastic matrix for any number of ranks, without the diagonal: each peer
/// is listed once, a rank never lists itself, and its own weight is 1 minus those listed.
template <class T>
concept Topology = std::copyable<T> && requires(const T t, int rank, int size, std::int64_t round) {
  { t.period(size) } -> std::same_as<int>;
  { t.in_edges(rank, size, round) } -> std::convertible_to<std::span<const topologies::edge>>;
  { t.describe() } -> std::convertible_to<std::string>;
};

namespace detail::comm {

/// In each round a rank sends to those ranks that it receives from.
template <class T>
concept SymmetricTopology = Topology<T> && requires { requires T::symmetric; };

/// The same from every rank: the eigenvalues of W are sums over the edges of rank 0.
template <class T>
concept TranslationInvariant = Topology<T> && requires(const T t, int size) {
  { t.dimensions(size) } -> std::same_as<std::vector<int>>;
};

/// Every round is a perfect matching, all of them equally likely, with one weight for all.
template <class T>
concept UniformMatching = Topology<T> && requires { requires T::uniform_matching; };

}  // namespace detail::comm

}  // namespace cordee::inline CORDEE_ABI
