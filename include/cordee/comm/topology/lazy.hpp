// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A graph whose ranks keep more of their own: slower to agree, easier for momentum to survive.
//
//   W_theta = (1 - theta) I + theta W
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <cordee/comm/graph.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {

template <Graph G>
struct lazy {
  static constexpr bool symmetric = Mutual<G>;
  static constexpr bool uniform_matching = MatchesAtRandom<G>;

  G graph{};
  double theta = 0.5;

  [[nodiscard]] int period(int size) const { return graph.period(size); }
  [[nodiscard]] std::vector<int> sides(int size) const
    requires TranslationInvariant<G>
  {
    return graph.sides(size);
  }
  [[nodiscard]] std::vector<edge> in(int rank, int size, std::int64_t round) const {
    expects(theta > 0 && theta <= 1, "lazy: theta must be above 0 and at most 1");
    const auto& whole = graph.in(rank, size, round);
    std::vector<edge> in(whole.begin(), whole.end());
    for (edge& e : in) e.weight *= theta;
    return in;
  }
  [[nodiscard]] std::string describe() const {
    return text("lazy ", graph.describe(), " (theta ", theta, ")");
  }
};
template <Graph G>
lazy(G, double) -> lazy<G>;
template <Graph G>
lazy(G) -> lazy<G>;

}  // namespace cordee::inline CORDEE_ABI
