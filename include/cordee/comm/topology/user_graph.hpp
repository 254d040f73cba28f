// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A graph of your own, checked when it is made: connected, with weights that keep the mean, and not
// one that passes values round for ever.
//
//   user_graph::metropolis({{1, 2}, {0}, {0}})             who meets whom: weights by the degrees
//   user_graph::weighted({{0.5, 0.5}, {0.5, 0.5}})         row i: what rank i gives what it hears
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
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
    made.expect_agreement(true);  // the weights of a row leave some of one
    return made;
  }

  /// weights[i][j]: what rank i gives what it hears from rank j, itself included. Rows and columns
  /// sum to one, or the mean of the ranks would drift.
  static user_graph weighted(const std::vector<std::vector<double>>& weights) {
    const std::size_t p = weights.size();
    user_graph made(static_cast<int>(p));
    bool keeps = false;
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
      keeps = keeps || weights[i][i] > nothing;
      constexpr double tolerance = 1e-9;
      if (std::abs(in - 1) > tolerance)
        refuse(text("row ", i, " sums to ", in, "; a doubly stochastic matrix is needed"));
      if (std::abs(out - 1) > tolerance)
        refuse(text("column ", i, " sums to ", out,
                    ", so the ranks' mean would drift; a doubly "
                    "stochastic matrix is needed, which user_graph::metropolis makes from a list "
                    "of neighbours"));
    }
    made.expect_agreement(keeps);
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
  // The lengths of all ways round have a common divisor, the period (1 where a rank keeps a share
  // of its own); with any other the matrix has more eigenvalues than the mean's of absolute value
  // one.
  void expect_agreement(bool keeps) const {
    std::vector<int> steps(rows_.size(), -1);  // of some way to each rank
    std::vector<int> open{0};
    steps[0] = 0;
    int period = keeps ? 1 : 0;
    while (!open.empty()) {
      const auto i = static_cast<std::size_t>(open.back());
      open.pop_back();
      for (const edge& e : rows_[i]) {
        if (!(e.weight > nothing)) continue;
        int& there = steps[static_cast<std::size_t>(e.peer)];
        if (there < 0) {
          there = steps[i] + 1;
          open.push_back(e.peer);
        }
        period = std::gcd(period, steps[i] + 1 - there);
      }
    }
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (steps[i] < 0)
        refuse(text("no path leads from rank 0 to rank ", i, ": they would never agree"));
    if (period != 1)
      refuse(text("every way round takes a multiple of ", period,
                  " rounds: the ranks would pass their values round and never agree; leave each a "
                  "share of its own"));
  }

  static constexpr double nothing = 1e-12;  // a weight so small is none

  std::vector<std::vector<edge>> rows_;
};

}  // namespace cordee::inline CORDEE_ABI
