// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A user-defined topology, checked at construction: connected, doubly stochastic and aperiodic.
//
//   adjacency::metropolis({{1, 2}, {0}, {0}})         neighbours of each rank: weights by degrees
//   adjacency::weighted({{0.5, 0.5}, {0.5, 0.5}})     the matrix W itself
#pragma once

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cordee/comm/topologies/topology.hpp>
#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>

namespace cordee::inline CORDEE_ABI {

namespace topologies {

/// A user-defined graph, the same in every round.
class adjacency {
 public:
  /// neighbors[i]: the ranks that rank i exchanges with; symmetric. An edge has weight 1 / (1 + the
  /// larger degree of its ends).
  /// @throws error unless the graph is connected and symmetric, without loops and double edges.
  static adjacency metropolis(const std::vector<std::vector<int>>& neighbors) {
    const auto p = static_cast<int>(neighbors.size());
    const auto of = [&](int rank) -> const auto& {
      return neighbors[static_cast<std::size_t>(rank)];
    };
    adjacency made(p);
    for (int i = 0; i < p; ++i)
      for (const int j : of(i)) {
        if (j < 0 || j >= p || j == i)
          fail(
              concat("rank ", i, " lists rank ", j, ", which is not another of its ", p, " ranks"));
        if (std::count(of(i).begin(), of(i).end(), j) != 1)
          fail(concat("rank ", i, " lists rank ", j, " twice"));
        if (std::count(of(j).begin(), of(j).end(), i) == 0)
          fail(concat("rank ", i, " lists rank ", j,
                      ", which does not list it; for a directed graph use adjacency::weighted"));
        const auto degree = std::max(of(i).size(), of(j).size());
        made.row(i).push_back({j, 1 / (1 + static_cast<double>(degree))});
      }
    made.check_convergence(true);  // weights of a row sum to less than 1
    return made;
  }

  /// weights[i][j]: nonnegative weight of rank j's numbers in rank i's mean.
  /// @throws error unless rows and columns sum to 1 within 1e-9 (else the mean over ranks would
  /// drift) and the ranks converge to their mean.
  static adjacency weighted(const std::vector<std::vector<double>>& weights) {
    const std::size_t p = weights.size();
    adjacency made(static_cast<int>(p));
    bool has_diagonal = false;
    for (std::size_t i = 0; i < p; ++i) {
      if (weights[i].size() != p)
        fail(concat("row ", i, " has ", weights[i].size(), " weights for ", p, " ranks"));
      double row_sum = 0, column_sum = 0;
      for (std::size_t j = 0; j < p && weights[j].size() == p; ++j) {
        const double w = weights[i][j];
        if (!(w >= 0)) fail(concat("rank ", i, " gives rank ", j, " the weight ", w));
        row_sum += w;
        column_sum += weights[j][i];
        if (j != i && w > 0) made.rows_[i].push_back({static_cast<int>(j), w});
      }
      has_diagonal = has_diagonal || weights[i][i] > negligible;
      constexpr double tolerance = 1e-9;
      if (detail::core::abs(row_sum - 1) > tolerance)
        fail(concat("row ", i, " sums to ", row_sum, "; a doubly stochastic matrix is needed"));
      if (detail::core::abs(column_sum - 1) > tolerance)
        fail(concat("column ", i, " sums to ", column_sum,
                    ", so the mean over ranks would drift; a doubly stochastic matrix is needed, "
                    "which adjacency::metropolis makes of a list of neighbours"));
    }
    made.check_convergence(has_diagonal);
    return made;
  }

  /// Number of ranks in the graph.
  [[nodiscard]] int size() const { return static_cast<int>(rows_.size()); }
  /// 1: rounds are equal.
  [[nodiscard]] int period(int) const { return 1; }
  /// The rank's row without the diagonal. Valid during this object's lifetime.
  /// @throws error if `ranks` is not size().
  [[nodiscard]] std::span<const edge> in_edges(int rank, int ranks, std::int64_t) const {
    if (ranks != size())
      throw error(concat("adjacency: made for ", size(), " ranks, and the run has ", ranks));
    return rows_[static_cast<std::size_t>(rank)];
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const { return "custom graph"; }

 private:
  explicit adjacency(int ranks) : rows_(static_cast<std::size_t>(ranks)) {
    if (ranks == 0) fail("it has no ranks");
  }
  std::vector<edge>& row(int rank) { return rows_[static_cast<std::size_t>(rank)]; }

  [[noreturn]] static void fail(const std::string& why) { throw error("adjacency: " + why); }

  // The powers of W converge to the mean if W is irreducible and aperiodic. In a doubly stochastic
  // matrix a rank that is reachable from 0 also reaches it, so one search suffices. The greatest
  // common divisor of the lengths of all cycles is the period, 1 where there is a diagonal.
  void check_convergence(bool has_diagonal) const {
    std::vector<int> distance(rows_.size(), -1);  // of some path from rank 0
    std::vector<int> open{0};
    distance[0] = 0;
    int period = has_diagonal ? 1 : 0;
    while (!open.empty()) {
      const auto i = static_cast<std::size_t>(open.back());
      open.pop_back();
      for (const edge& e : rows_[i]) {
        if (!(e.weight > negligible)) continue;
        int& peer_distance = distance[static_cast<std::size_t>(e.peer)];
        if (peer_distance < 0) {
          peer_distance = distance[i] + 1;
          open.push_back(e.peer);
        }
        for (int length = std::abs(distance[i] + 1 - peer_distance); length != 0;)
          period = std::exchange(length, period % length);  // the greatest common divisor
      }
    }
    for (std::size_t i = 0; i < distance.size(); ++i)
      if (distance[i] < 0)
        fail(concat("no path leads from rank 0 to rank ", i, ": the ranks would never agree"));
    if (period != 1)
      fail(concat("all cycles have lengths that are multiples of ", period,
                  ": the ranks would pass their values round and never agree; leave each rank a "
                  "weight of its own (a diagonal above 0)"));
  }

  static constexpr double negligible = 1e-12;

  std::vector<std::vector<edge>> rows_;
};

}  // namespace topologies

}  // namespace cordee::inline CORDEE_ABI
