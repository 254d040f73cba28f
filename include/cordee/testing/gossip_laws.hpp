// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What averaging with neighbours keeps on every graph, for one of your own:
//
//   TEST_CASE("mine mixes") { CHECK(gossip_laws(mine{}) == ""); }
//
// The graph's rows are those of a doubly stochastic matrix W in each round; mixing unit vectors
// recovers W, mixing any numbers of any length gives W x; disagreement shrinks a round as the
// graph's spectral gap says. `make(link, graph)`, if given, makes another reducer than gossip.
// Ranks that the graph refuses are left out.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <exception>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <cordee/comm/consensus.hpp>
#include <cordee/comm/gossip.hpp>
#include <cordee/comm/stability.hpp>
#include <cordee/comm/threads.hpp>
#include <cordee/testing/reducer_laws.hpp>
#include <cordee/testing/verdict.hpp>

namespace cordee::inline CORDEE_ABI {

struct gossip_law_options {
  std::vector<int> ranks{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16};
  std::vector<std::size_t> lengths{};   // 0, 1, p - 1, p, p + 1 and 997 if empty
  std::vector<int> decays{4, 5, 8, 9};  // over which the disagreement is watched: many rounds
  std::chrono::milliseconds deadline{60'000};
};

namespace detail {

struct makes_gossip {
  template <class Link, Graph G>
  auto operator()(Link link, const G& graph) const {
    return gossip{link, graph};
  }
};

template <Graph G, class Make>
class gossip_trial {
 public:
  gossip_trial(const G& graph, int ranks, const Make& make, verdict& v)
      : graph_(graph), ranks_(ranks), make_(make), v_(v) {}

  /// Whether the graph declares a mean in this round; without one nothing else is asked.
  bool declares(std::int64_t round) {
    std::vector<double> in(size()), out(size());
    bool good = true;
    const auto law = [&](bool holds, const auto&... sentence) {
      v_.law(holds, sentence..., where(), ", round ", round);
      good = good && holds;
    };
    for (int i = 0; i < ranks_; ++i) {
      std::vector<bool> met(size());
      const auto& heard = graph_.in(i, ranks_, round);
      for (const edge& e : std::span<const edge>(heard)) {
        const bool another = e.peer >= 0 && e.peer < ranks_ && e.peer != i;
        law(another, "rank ", i, " hears rank ", e.peer);
        if (!another) return false;
        const auto j = static_cast<std::size_t>(e.peer);
        law(!met[j], "rank ", i, " hears rank ", j, " twice");
        met[j] = true;
        law(e.weight > 0, "rank ", i, " gives rank ", j, " the weight ", e.weight);
        in[static_cast<std::size_t>(i)] += e.weight;
        out[j] += e.weight;
      }
    }
    for (std::size_t i = 0; i < size(); ++i) {
      law(in[i] <= 1 + rounded, "rank ", i, " gives others ", in[i], " in all");
      law(std::abs(in[i] - out[i]) <= rounded, "rank ", i, " gives others ", in[i], " and gets ",
          out[i], ", so the mean drifts");
    }
    return good;
  }

  /// On one rank: its row of W, and of W x.
  template <class Link>
  void mixes(Link link, std::int64_t round) {
    std::vector<double> unit(size());
    unit[static_cast<std::size_t>(link.rank())] = 1;
    const auto recovered = mixed(link, unit, round), declared = row(link.rank(), round);
    for (std::size_t j = 0; j < size(); ++j)
      v_.law(std::abs(recovered[j] - declared[j]) <= rounded, "rank ", link.rank(), " gives rank ",
             j, " the weight ", recovered[j], ", not ", declared[j], where(), ", round ", round);
  }
  template <class Real, class Link>
  void mixes_whole(Link link, std::size_t n) {
    const auto got = mixed(link, law_numbers<Real>(false, link.rank(), ranks_, n), 1);
    const auto weights = row(link.rank(), 1);
    std::vector<double> expected(n);
    for (int j = 0; j < ranks_; ++j) {
      const auto x = law_numbers<Real>(false, j, ranks_, n);
      for (std::size_t k = 0; k < n; ++k)
        expected[k] += weights[static_cast<std::size_t>(j)] * static_cast<double>(x[k]);
    }
    const double off = 16 * static_cast<double>(std::numeric_limits<Real>::epsilon());
    for (std::size_t k = 0; k < n; ++k)
      v_.law(std::abs(static_cast<double>(got[k]) - expected[k]) <= off, "rank ", link.rank(),
             " has ", got[k], ", not ", expected[k], " at ", k, " of ", n, " numbers of ",
             sizeof(Real), " bytes", where());
  }

  /// A random graph keeps its rate in the mean only; an exact mean leaves nothing to measure.
  template <class Link>
  void decays(Link link) {
    const double rho = 1 - spectral_gap(graph_, ranks_);
    const int period = graph_.period(ranks_);
    if (period == 0 || !(rho > 1e-6)) return;
    v_.law(rho < 1 - rounded, "the ranks never agree", where());
    if (!(rho < 1 - rounded)) return;
    // From 1e-3 of the start, where one mode is left, to 1e-10, which rounding does not reach.
    const auto rounds_to = [&](double size) {
      return static_cast<int>(std::log(size) / std::log(rho) / period + 1) * period;
    };
    const int from = rounds_to(1e-3), to = rounds_to(1e-10);
    auto x = law_numbers<double>(false, link.rank(), ranks_, 64);
    const auto distance = [&] {
      return consensus_distance(link, cpu{1}, span_on<double, cpu>{x.data(), x.size()},
                                cpu::stream{});
    };
    double early = 0;
    for (int round = 0; round < to; ++round) {
      if (round == from) early = distance();
      x = mixed(link, x, round);
    }
    const double rate = std::pow(distance() / early, 1.0 / (to - from));
    v_.law(std::abs(rate - rho) < 0.01 * rho, "disagreement is multiplied by ", rate,
           " a round, not ", rho, where());
  }

 private:
  static constexpr double rounded = 1e-12;

  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(ranks_); }
  [[nodiscard]] std::string where() const { return text(" (", ranks_, " ranks)"); }

  template <class Link, class Real>
  std::vector<Real> mixed(Link link, const std::vector<Real>& x, std::int64_t round) const {
    return law_mean(make_(link, graph_), x, v_, {.round = round});
  }
  [[nodiscard]] std::vector<double> row(int rank, std::int64_t round) const {
    std::vector<double> w(size());
    double& own = w[static_cast<std::size_t>(rank)];
    own = 1;
    const auto& heard = graph_.in(rank, ranks_, round);
    for (const edge& e : std::span<const edge>(heard)) {
      w[static_cast<std::size_t>(e.peer)] += e.weight;
      own -= e.weight;
    }
    return w;
  }

  const G& graph_;
  const int ranks_;
  const Make& make_;
  verdict& v_;
};

template <Graph G>
bool serves(const G& graph, int ranks) {
  try {
    (void)graph.in(0, ranks, 0);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace detail

/// Broken laws of mixing on this graph, as sentences; empty if there are none.
template <Graph G, class Make = detail::makes_gossip>
std::string gossip_laws(const G& graph, const gossip_law_options& options = {},
                        const Make& make = {}) {
  constexpr std::int64_t rounds[] = {0, 1, 2, 5};
  verdict v;
  bool served = false;
  for (const int ranks : options.ranks) {
    if (!detail::serves(graph, ranks)) continue;
    served = true;
    detail::gossip_trial trial(graph, ranks, make, v);
    if (!std::ranges::all_of(rounds, [&](auto round) { return trial.declares(round); })) continue;
    const auto p = static_cast<std::size_t>(ranks);
    std::vector<std::size_t> lengths = options.lengths;
    if (lengths.empty()) lengths = {0, 1, p - 1, p, p + 1, 997};
    try {
      threads::launch(ranks,
                      [&](threads link) {
                        for (const std::int64_t round : rounds) trial.mixes(link, round);
                        for (const std::size_t n : lengths)
                          trial.template mixes_whole<float>(link, n);
                        for (const std::size_t n : lengths)
                          trial.template mixes_whole<double>(link, n);
                        if (std::ranges::count(options.decays, ranks) > 0) trial.decays(link);
                      },
                      {.deadline = options.deadline});
    } catch (const std::exception& e) {
      v.law(false, "failed over ", ranks, " ranks: ", e.what());
    }
  }
  v.law(served, "the graph serves none of these numbers of ranks");
  return v.str();
}

}  // namespace cordee::inline CORDEE_ABI
