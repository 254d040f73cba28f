// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Archetypes of the concepts: a graph that says no more than it must, and that one short of, or
// with, one thing.
#include <array>

#include <doctest/doctest.h>

#include <cordee/comm/graph.hpp>

#include "tests/support/graphs.hpp"

using namespace cordee;
using namespace support;

namespace {

/// The least that is a graph: everybody hears the next rank. Of two ranks and more.
struct least {
  int period(int) const { return 1; }
  std::array<edge, 1> in(int rank, int size, std::int64_t) const {
    return {edge{(rank + 1) % size, 0.25}};
  }
};

struct period_in_words : least {
  const char* period(int) const { return "one"; }
};
struct neighbours_without_weights : least {
  std::array<int, 1> in(int, int, std::int64_t) const { return {0}; }
};
struct without_rounds : least {
  std::array<edge, 1> in(int, int) const { return {}; }
};
struct changing_itself : least {
  std::array<edge, 1> in(int, int, std::int64_t) { return {}; }
};
struct not_copyable : least {
  not_copyable(const not_copyable&) = delete;
};
struct mutual : least {
  static constexpr bool symmetric = true;
};
struct not_mutual : least {
  static constexpr bool symmetric = false;
};
struct everywhere_alike : least {
  std::vector<int> sides(int size) const { return {size}; }
};
struct one_side : least {
  int sides(int size) const { return size; }
};
struct matching : least {
  static constexpr bool uniform_matching = true;
};
struct no_matching : least {
  static constexpr bool uniform_matching = false;
};
struct claims_alone {
  static constexpr bool symmetric = true, uniform_matching = true;
  std::vector<int> sides(int size) const { return {size}; }
};

}  // namespace

static_assert(Graph<least> && !Graph<int>);
static_assert(!Graph<period_in_words> && !Graph<neighbours_without_weights>);
static_assert(!Graph<without_rounds> && !Graph<changing_itself> && !Graph<not_copyable>);
static_assert(!Mutual<least> && !TranslationInvariant<least> && !MatchesAtRandom<least>);
static_assert(Mutual<mutual> && !Mutual<not_mutual>, "what a graph denies is not believed");
static_assert(MatchesAtRandom<matching> && !MatchesAtRandom<no_matching>);
static_assert(TranslationInvariant<everywhere_alike> && !TranslationInvariant<one_side>);
static_assert(!Mutual<claims_alone> && !MatchesAtRandom<claims_alone> &&
              !TranslationInvariant<claims_alone>);

TEST_CASE(
    "graph: the least that models the concept is a matrix, and what weights leave is its own") {
  CHECK(matrix_of(least{}, 3, 0) == matrix{{0.75, 0.25, 0}, {0, 0.75, 0.25}, {0.25, 0, 0.75}});
}
