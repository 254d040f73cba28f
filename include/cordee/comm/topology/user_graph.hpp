// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A graph of your own, checked when it is made: connected, and with weights that keep the mean.
//
//   user_graph::metropolis({{1, 2}, {0}, {0}})             who meets whom: weights by the degrees
//   user_graph::weighted({{0.5, 0.5}, {0.5, 0.5}})         row i: what rank i gives what it hears
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <cordee/comm/graph.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {

class user_graph {
 public:
  /// neighbours[i]: the ranks that rank i meets, which meet it too. An edge weighs
  /// 1 / (1 + max(degree, degree of the other end)).
  static user_graph metropolis(const std::vector<std::vector<int>>& neighbours) {
    const auto p = static_cast<int>(neighbours.size());
    const auto of = [&](int rank) -> const auto& {
      return neighbours[static_cast<std::size_t>(rank)];
    };
    user_graph made(p);
    for (int i = 0; i < p; ++i)
      for (const int j : of(i)) {
        if (j < 0 || j >= p || j == i)
          refuse(
              text("rank ", i, " names rank ", j, ", which is not another of its ", p, " ranks"));
        if (std::count(of(i).begin(), of(i).end(), j) != 1)
          refuse(text("rank ", i, " names rank ", j, " twice"));
        if (std::count(of(j).begin(), of(j).end(), i) == 0)
          refuse(text("rank ", i, " meets rank ", j,
                      ", which does not meet it; for a directed graph say user_graph::weighted"));
        const auto degree = std::max(of(i).size(), of(j).size());
        made.row(i).push_back({j, 1 / (1 + static_cast<double>(degree))});
      }
    made.expect_connected();
    return made;
  }

  /// weights[i][j]: what rank i gives what it hears from rank j, itself included. Rows and columns
  /// sum to one, or the mean of the ranks would drift.
  static user_graph weighted(const std::vector<std::vector<double>>& weights) {
    const std::size_t p = weights.size();
    user_graph made(static_cast<int>(p));
    for (std::size_t i = 0; i < p; ++i) {
      if (weights[i].size() != p)
        refuse(text("row ", i, " has ", weights[i].size(), " weights for ", p, " ranks"));
      double in = 0, out = 0;
      for (std::size_t j = 0; j < p && weights[j].size() == p; ++j) {
        const double w = weights[i][j];
        if (!(w >= 0)) refuse(text("rank ", i, " gives rank ", j, " the weight ", w));
        in += w;
        out += weights[j][i];
        if (j != i && w > 0) made.rows_[i].push_back({static_cast<int>(j), w});
      }
      constexpr double tolerance = 1e-9;
      if (std::abs(in - 1) > tolerance)
        refuse(text("row ", i, " sums to ", in, "; a doubly stochastic matrix is needed"));
      if (std::abs(out - 1) > tolerance)
        refuse(text("column ", i, " sums to ", out,
                    ", so the ranks' mean would drift; a doubly "
                    "stochastic matrix is needed, which user_graph::metropolis makes from a list "
                    "of neighbours"));
    }
    made.expect_connected();
    return made;
  }

  [[nodiscard]] int size() const { return static_cast<int>(rows_.size()); }
  [[nodiscard]] int period(int) const { return 1; }
  [[nodiscard]] std::span<const edge> in(int rank, int ranks, std::int64_t) const {
    if (ranks != size())
      throw error(text("user_graph: made for ", size(), " ranks, and the run has ", ranks));
    return rows_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::string describe() const { return "graph of your own"; }

 private:
  explicit user_graph(int ranks) : rows_(static_cast<std::size_t>(ranks)) {
    if (ranks == 0) refuse("it has no ranks");
  }
  std::vector<edge>& row(int rank) { return rows_[static_cast<std::size_t>(rank)]; }

  [[noreturn]] static void refuse(const std::string& why) { throw error("user_graph: " + why); }

  // In a doubly stochastic matrix what can be heard from 0 can also hear it: one search is enough.
  void expect_connected() const {
    std::vector<bool> seen(rows_.size());
    std::vector<int> open{0};
    seen[0] = true;
    while (!open.empty()) {
      const auto i = static_cast<std::size_t>(open.back());
      open.pop_back();
      for (const edge& e : rows_[i])
        if (!seen[static_cast<std::size_t>(e.peer)]) {
          seen[static_cast<std::size_t>(e.peer)] = true;
          open.push_back(e.peer);
        }
    }
    for (std::size_t i = 0; i < seen.size(); ++i)
      if (!seen[i])
        refuse(text("no path leads from rank 0 to rank ", i, ": they would never agree"));
  }

  std::vector<std::vector<edge>> rows_;
};

}  // namespace cordee::inline CORDEE_ABI
