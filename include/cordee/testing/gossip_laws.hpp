// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The laws of averaging with neighbours, for a topology of your own:
//
//   TEST_CASE("my_topology mixes") { CHECK(gossip_laws(my_topology{}) == ""); }
//
// In each round of the period, and in rounds 0, 1, 2 and 5, the edges are the rows of a doubly
// stochastic matrix W, which has the properties that the topology declares; mixing unit vectors
// recovers W, mixing any numbers of any length gives W x; disagreement decays as the spectral gap
// predicts. `make(comm, topology)`, if given, makes another reducer than gossip. Numbers of ranks
// that the topology refuses are left out.
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
#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/topologies/stability.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/testing/reducer_laws.hpp>
#include <cordee/testing/report.hpp>

namespace cordee::inline CORDEE_ABI {

/// Options of gossip_laws.
struct gossip_law_options {
  /// Numbers of ranks to test; those that the topology rejects are left out.
  std::vector<int> ranks{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16};
  /// Lengths of vectors; empty: 0, 1, p - 1, p, p + 1 and 997 over p ranks.
  std::vector<std::size_t> lengths{};
  /// Numbers of ranks for which the decay of disagreement is measured over many rounds.
  std::vector<int> decay_ranks{4, 5, 8, 9};
  /// Deadline of each launch, see threads::options.
  std::chrono::milliseconds deadline{60'000};
};

namespace detail::testing {

struct make_gossip {
  template <class Communicator, Topology T>
  auto operator()(Communicator comm, const T& topology) const {
    return gossip{comm, topology};
  }
};

template <Topology T, class Make>
class gossip_trial {
 public:
  gossip_trial(const T& topology, int ranks, const Make& make, report& r)
      : topology_(topology), ranks_(ranks), make_(make), report_(r) {}

  /// Effects: checks that W is doubly stochastic in this round. Returns whether it is: otherwise
  /// nothing else can be checked.
  bool check_matrix(std::int64_t round) {
    std::vector<double> row_sum(size()), column_sum(size());  // without the diagonal
    bool holds = true;
    const auto expect = [&](bool condition, const auto&... sentence) {
      report_.expect(condition, sentence..., where(), ", round ", round);
      holds = holds && condition;
    };
    for (int i = 0; i < ranks_; ++i) {
      std::vector<bool> listed(size());
      const auto& edges = topology_.in_edges(i, ranks_, round);
      for (const topologies::edge& e : std::span<const topologies::edge>(edges)) {
        const bool is_peer = e.peer >= 0 && e.peer < ranks_ && e.peer != i;
        expect(is_peer, "rank ", i, " receives from rank ", e.peer);
        if (!is_peer) return false;
        const auto j = static_cast<std::size_t>(e.peer);
        expect(!listed[j], "rank ", i, " receives from rank ", j, " twice");
        listed[j] = true;
        expect(e.weight > 0, "rank ", i, " gives rank ", j, " the weight ", e.weight);
        row_sum[static_cast<std::size_t>(i)] += e.weight;
        column_sum[j] += e.weight;
      }
    }
    for (std::size_t i = 0; i < size(); ++i) {
      expect(row_sum[i] <= 1 + tolerance, "rank ", i, " gives others ", row_sum[i], " in all");
      expect(std::abs(row_sum[i] - column_sum[i]) <= tolerance, "rank ", i, " gives others ",
             row_sum[i], " and gets ", column_sum[i], ", so the mean drifts");
    }
    return holds;
  }

  /// Effects: checks in this round what the topology declares of itself, before ranks rely on it.
  /// Returns whether it holds. Requires that check_matrix holds.
  bool check_declared(std::int64_t round) {
    std::vector<std::vector<double>> w;
    for (int i = 0; i < ranks_; ++i) w.push_back(row_of(i, round));
    bool holds = true;
    const auto expect = [&](bool condition, const auto&... sentence) {
      if (holds) report_.expect(condition, sentence..., where(), ", round ", round);
      holds = holds && condition;
    };
    std::vector<int> dimensions;
    if constexpr (comm::TranslationInvariant<T>) {
      dimensions = topology_.dimensions(ranks_);
      int product = 1;
      for (const int d : dimensions) product *= d;
      expect(product == ranks_, "dimensions has ", product, " elements, not ", ranks_);
      if (!holds) return false;
    }
    for (std::size_t i = 0; i < size(); ++i)
      for (std::size_t j = 0; j < size(); ++j) {
        if constexpr (comm::SymmetricTopology<T>)
          expect(std::abs(w[i][j] - w[j][i]) <= tolerance, "symmetric, but rank ", i,
                 " gives rank ", j, " the weight ", w[i][j], " and gets ", w[j][i]);
        if constexpr (comm::UniformMatching<T>)
          expect(i == j || w[i][j] == 0 ||
                     (std::abs(w[i][j] + w[0][0] - 1) <= tolerance && w[j][i] > 0 &&
                      std::abs(w[i][i] - w[0][0]) <= tolerance),
                 "uniform_matching, but rank ", i, " gives rank ", j, " the weight ", w[i][j],
                 " and itself ", w[i][i]);
        if constexpr (comm::TranslationInvariant<T>) {
          const std::size_t difference = difference_of(j, i, dimensions);
          expect(std::abs(w[i][j] - w[0][difference]) <= tolerance, "dimensions, but rank ", i,
                 " gives rank ", j, " the weight ", w[i][j], ", rank 0 gives rank ", difference,
                 " ", w[0][difference]);
        }
      }
    return holds;
  }

  /// On one rank: mixing unit vectors recovers its row of W.
  template <class Communicator>
  void check_weights(Communicator comm, std::int64_t round) {
    std::vector<double> unit(size());
    unit[static_cast<std::size_t>(comm.rank())] = 1;
    const auto recovered = mixed(comm, unit, round), declared = row_of(comm.rank(), round);
    for (std::size_t j = 0; j < size(); ++j)
      report_.expect(std::abs(recovered[j] - declared[j]) <= tolerance, "rank ", comm.rank(),
                     " gives rank ", j, " the weight ", recovered[j], ", not ", declared[j],
                     where(), ", round ", round);
  }
  /// On one rank: mixing n numbers gives its row of W x.
  template <class Real, class Communicator>
  void check_product(Communicator comm, std::size_t n) {
    const auto y = mixed(comm, law_numbers<Real>(false, comm.rank(), ranks_, n), 1);
    const auto weights = row_of(comm.rank(), 1);
    std::vector<double> expected(n);
    for (int j = 0; j < ranks_; ++j) {
      const auto x = law_numbers<Real>(false, j, ranks_, n);
      for (std::size_t k = 0; k < n; ++k)
        expected[k] += weights[static_cast<std::size_t>(j)] * static_cast<double>(x[k]);
    }
    const double bound = 16 * static_cast<double>(std::numeric_limits<Real>::epsilon());
    for (std::size_t k = 0; k < n; ++k)
      report_.expect(std::abs(static_cast<double>(y[k]) - expected[k]) <= bound, "rank ",
                     comm.rank(), " has ", y[k], ", not ", expected[k], " at ", k, " of ", n,
                     " numbers of ", sizeof(Real), " bytes", where());
  }

  /// On one rank: disagreement decays by rho a round. Not for a random topology, which does so in
  /// the mean only, nor where a period leaves the exact mean.
  template <class Communicator>
  void check_decay(Communicator comm) {
    const double rho = 1 - comm::spectral_gap(topology_, ranks_);
    const int period = topology_.period(ranks_);
    if (period == 0 || !(rho > 1e-6)) return;
    report_.expect(rho < 1 - tolerance, "the ranks never agree", where());
    if (!(rho < 1 - tolerance)) return;
    // Measured between 1e-3 of the start, where one mode is left, and 1e-10, above rounding errors.
    const auto rounds_to = [&](double size) {
      return static_cast<int>(std::log(size) / std::log(rho) / period + 1) * period;
    };
    const int from = rounds_to(1e-3), to = rounds_to(1e-10);
    auto x = law_numbers<double>(false, comm.rank(), ranks_, 64);
    const auto distance = [&] {
      return comm::consensus_distance(comm, cpu{1}, span_on<double, cpu>{x.data(), x.size()},
                                      cpu::stream{});
    };
    double early = 0;
    for (int round = 0; round < to; ++round) {
      if (round == from) early = distance();
      x = mixed(comm, x, round);
    }
    const double factor = std::pow(distance() / early, 1.0 / (to - from));
    report_.expect(std::abs(factor - rho) < 0.01 * rho, "disagreement is multiplied by ", factor,
                   " a round, not ", rho, where());
  }

 private:
  static constexpr double tolerance = 1e-12;

  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(ranks_); }
  [[nodiscard]] std::string where() const { return concat(" (", ranks_, " ranks)"); }

  template <class Communicator, class Real>
  std::vector<Real> mixed(Communicator comm, const std::vector<Real>& x, std::int64_t round) const {
    return law_mean(make_(comm, topology_), x, report_, {.round = round});
  }
  [[nodiscard]] std::vector<double> row_of(int rank, std::int64_t round) const {
    std::vector<double> w(size());
    double& diagonal = w[static_cast<std::size_t>(rank)];
    diagonal = 1;
    const auto& edges = topology_.in_edges(rank, ranks_, round);
    for (const topologies::edge& e : std::span<const topologies::edge>(edges)) {
      w[static_cast<std::size_t>(e.peer)] += e.weight;
      diagonal -= e.weight;
    }
    return w;
  }

  // j - i on the grid of these dimensions, which wraps around.
  static std::size_t difference_of(std::size_t j, std::size_t i, const std::vector<int>& grid) {
    std::size_t out = 0, step = 1;
    for (auto d = grid.rbegin(); d != grid.rend(); ++d) {
      const auto order = static_cast<std::size_t>(*d);
      out += (j % order + order - i % order) % order * step;
      step *= order, j /= order, i /= order;
    }
    return out;
  }

  const T& topology_;
  const int ranks_;
  const Make& make_;
  report& report_;
};

template <Topology T>
bool is_served(const T& topology, int ranks) {
  try {
    (void)topology.in_edges(0, ranks, 0);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

/// Rounds 0, 1, 2 and 5, and all of a period.
template <Topology T>
std::vector<std::int64_t> checked_rounds(const T& topology, int ranks) {
  std::vector<std::int64_t> rounds;
  const int period = topology.period(ranks);
  for (int k = 0; k < std::max(period, 6); ++k)
    if (k < std::max(period, 3) || k == 5) rounds.push_back(k);
  return rounds;
}

}  // namespace detail::testing

/// Returns the laws violated by mixing over this topology; empty if there are none.
template <Topology T, class Make = detail::testing::make_gossip>
std::string gossip_laws(const T& topology, const gossip_law_options& options = {},
                        const Make& make = {}) {
  detail::testing::report r;
  bool any_served = false;
  for (const int ranks : options.ranks) {
    if (!detail::testing::is_served(topology, ranks)) continue;
    any_served = true;
    const auto rounds = detail::testing::checked_rounds(topology, ranks);
    detail::testing::gossip_trial trial(topology, ranks, make, r);
    if (!std::ranges::all_of(rounds, [&](auto round) {
          return trial.check_matrix(round) && trial.check_declared(round);
        }))
      continue;
    const auto p = static_cast<std::size_t>(ranks);
    std::vector<std::size_t> lengths = options.lengths;
    if (lengths.empty()) lengths = {0, 1, p - 1, p, p + 1, 997};
    try {
      threads::launch(ranks,
                      [&](threads comm) {
                        for (const std::int64_t round : rounds) trial.check_weights(comm, round);
                        for (const std::size_t n : lengths)
                          trial.template check_product<float>(comm, n);
                        for (const std::size_t n : lengths)
                          trial.template check_product<double>(comm, n);
                        if (std::ranges::count(options.decay_ranks, ranks) > 0)
                          trial.check_decay(comm);
                      },
                      {.deadline = options.deadline});
    } catch (const std::exception& e) {
      r.expect(false, "failed over ", ranks, " ranks: ", e.what());
    }
  }
  r.expect(any_served, "the topology serves none of these numbers of ranks");
  return r.violations();
}

}  // namespace cordee::inline CORDEE_ABI
