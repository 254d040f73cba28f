// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Who hears whom, and what a graph may say of itself so that more can be known of it.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <vector>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

/// A rank hears `peer` and gives what it says this weight.
struct edge {
  int peer;
  double weight;
};

/// Who hears whom: the rows of a doubly stochastic matrix for any number of ranks. `in` are the
/// ranks that `rank` hears in a round, each once and never itself; what their weights leave of one
/// is its own. `period` is the number of rounds until the graph repeats itself, 0 for a random one,
/// whose rounds all have equally many edges.
template <class G>
concept Graph = std::copyable<G> && requires(const G g, int rank, int size, std::int64_t round) {
  { g.period(size) } -> std::same_as<int>;
  { g.in(rank, size, round) } -> std::convertible_to<std::span<const edge>>;
};

/// In each round those who hear are heard by the same ranks.
template <class G>
concept Mutual = Graph<G> && requires { requires G::symmetric; };

/// Looks alike from every rank: ranks are the elements of Z_a x Z_b x … with these sides, and who
/// is heard depends on the difference only.
template <class G>
concept TranslationInvariant = Graph<G> && requires(const G g, int size) {
  { g.sides(size) } -> std::same_as<std::vector<int>>;
};

/// Every round is a perfect matching, all of them equally likely, with one weight for all.
template <class G>
concept MatchesAtRandom = Graph<G> && requires { requires G::uniform_matching; };

}  // namespace cordee::inline CORDEE_ABI
