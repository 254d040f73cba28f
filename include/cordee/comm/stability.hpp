// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What momentum survives on a graph: how much the ranks' disagreement grows in a round, whatever
// the data, when a rule feeds the displacement x - W x into its momentum.
//
//   heavy ball    u <- beta u + (1 - l) x,   x <- x - u                      for each eigenvalue l
//   Nesterov      u <- beta u + (1 - l) x,   x <- x - (1 - l) x - beta u     of W but the mean's
//   radius        of the product of one period's maps, per round; stable while it is below 1
//
// Graphs that look alike from every rank have the characters of their group as modes: 2 x 2 maps,
// at thousands of ranks in no time. Random matchings have second moments. For any other graph the
// map of all ranks is squared again and again (Gelfand), up to 128 ranks.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include <cordee/comm/graph.hpp>
#include <cordee/core/complex.hpp>
#include <cordee/core/protocol.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// A square matrix of `n` rows, row-major.
struct square {
  std::size_t n = 0;
  std::vector<double> at = std::vector<double>(n * n);

  double& operator()(std::size_t i, std::size_t j) { return at[i * n + j]; }
  double operator()(std::size_t i, std::size_t j) const { return at[i * n + j]; }
};

inline square operator*(const square& a, const square& b) {
  square c{a.n};
  for (std::size_t i = 0; i < a.n; ++i)
    for (std::size_t k = 0; k < a.n; ++k)
      if (const double x = a(i, k); x != 0)
        for (std::size_t j = 0; j < a.n; ++j) c(i, j) += x * b(k, j);
  return c;
}

/// Gelfand: |A^n|^(1/n) falls to the spectral radius; n doubles. `to_decide`: stop as soon as it is
/// known on which side of one the radius lies, since |A^n| < 1 says below, |trace A^n| > rows
/// above.
inline double spectral_radius(square a, bool to_decide) {
  double log_norm = 0, n = 1, radius = 0;  // A^n = exp(log_norm) a, |a| = 1
  for (int squarings = 0; squarings < 46; ++squarings) {
    double norm = 0, trace = 0;
    for (const double x : a.at) norm += x * x;
    norm = std::sqrt(norm);
    if (norm == 0) return 0;
    for (double& x : a.at) x /= norm;
    log_norm += std::log(norm);
    const double before = std::exchange(radius, std::exp(log_norm / n));
    if (squarings > 8 && std::abs(radius - before) <= 1e-15 * radius) break;
    for (std::size_t i = 0; i < a.n; ++i) trace += a(i, i);
    if (to_decide &&
        (log_norm < 0 || std::log(std::abs(trace)) + log_norm > std::log(static_cast<double>(a.n))))
      break;
    a = a * a;
    log_norm *= 2;
    n *= 2;
  }
  return radius;
}

}  // namespace detail

/// What a graph does to the disagreement of so many ranks, ready for questions.
class stability {
 public:
  template <Graph G>
  stability(const G& graph, int ranks)
      : ranks_(static_cast<std::size_t>(ranks)), rounds_(graph.period(ranks)) {
    if (ranks == 1) return;
    if (rounds_ == 0) {
      if constexpr (MatchesAtRandom<G>)
        matching_ = 2 * std::span<const edge>(graph.in(0, ranks, 0)).front().weight;
    } else if constexpr (TranslationInvariant<G>) {
      const std::vector<int> sides = graph.sides(ranks);
      for (int round = 0; round < rounds_; ++round)
        modes_.push_back(characters(sides, graph.in(0, ranks, round)));
    } else if (ranks <= most_ranks) {
      for (int round = 0; round < rounds_; ++round) {
        detail::square w{ranks_};
        for (std::size_t i = 0; i < ranks_; ++i) {
          w(i, i) = 1;
          const auto& heard = graph.in(static_cast<int>(i), ranks, round);
          for (const edge& e : std::span<const edge>(heard)) {
            w(i, static_cast<std::size_t>(e.peer)) += e.weight;
            w(i, i) -= e.weight;
          }
        }
        matrices_.push_back(w);
      }
    }
  }

  /// Whether the questions below have answers; they are NaN otherwise: random graphs other than
  /// uniform matchings, and more than 128 ranks on a graph without symmetry.
  [[nodiscard]] bool known() const {
    return ranks_ == 1 || matching_ > 0 || !modes_.empty() || !matrices_.empty();
  }

  /// Growth of the disagreement a round under such a rule, on the lazy graph of this theta. Over
  /// random matchings it is that of the mean square, the stricter sense.
  [[nodiscard]] double radius(consensus c, double theta = 1) const {
    return radius(c, theta, false);
  }

  /// 1 - rho, by which disagreement shrinks a round without momentum.
  [[nodiscard]] double spectral_gap() const {
    if (matrices_.size() != 1) return std::max(1 - radius(consensus{}), 0.0);
    // A graph that is not normal can shrink less in one round than in the long run.
    const detail::square& w = matrices_.front();
    detail::square gram{ranks_};
    for (std::size_t k = 0; k < ranks_; ++k)
      for (std::size_t i = 0; i < ranks_; ++i)
        for (std::size_t j = 0; j < ranks_; ++j)
          gram(i, j) += off_mean(w, k, i) * off_mean(w, k, j);
    return std::max(1 - std::sqrt(detail::spectral_radius(gram, false)), 0.0);
  }

  /// Every momentum below it survives; 1 if all do.
  [[nodiscard]] double largest_momentum(bool nesterov) const {
    return first_failure(0, [&](double beta) { return survives({beta, nesterov}, 1); });
  }

  /// The lazy graph survives with any theta below it; 1 if the graph itself does, 0 if none does.
  [[nodiscard]] double largest_theta(consensus c) const {
    if (survives(c, 1)) return 1;
    return first_failure(1e-6, [&](double theta) { return survives(c, theta); });
  }

 private:
  using complex = detail::complex;
  static constexpr complex one{1};
  static constexpr int most_ranks = 128;

  [[nodiscard]] bool survives(consensus c, double theta) const {
    return radius(c, theta, true) < largest_stable_radius;
  }

  [[nodiscard]] double radius(consensus c, double theta, bool to_decide) const {
    if (ranks_ == 1) return 0;
    if (!known()) return std::numeric_limits<double>::quiet_NaN();
    if (matching_ > 0) return of_matchings(c, theta * matching_, to_decide);
    const double whole = modes_.empty() ? of_all_ranks(c, theta, to_decide) : of_modes(c, theta);
    // A period that leaves the exact mean leaves roundings, whose root would look like a number.
    return whole < 1e-14 ? 0 : std::pow(whole, 1.0 / rounds_);
  }

  /// The eigenvalues of one round but the mean's: mode k turns by k.s / sides over an edge from s.
  static std::vector<complex> characters(const std::vector<int>& sides,
                                         std::span<const edge> heard) {
    std::size_t p = 1;
    for (const int side : sides) p *= static_cast<std::size_t>(side);
    const auto turns = [&](std::size_t k, std::size_t s) {
      double sum = 0;
      for (std::size_t a = sides.size(); a-- > 0;) {
        const auto n = static_cast<std::size_t>(sides[a]);
        sum += static_cast<double>(k % n * (s % n) % n) / static_cast<double>(n);
        k /= n;
        s /= n;
      }
      return sum;
    };
    std::vector<complex> values;
    for (std::size_t k = 1; k < p; ++k) {
      complex value = one;
      for (const edge& e : heard) {
        const double angle = 2 * std::numbers::pi * turns(k, static_cast<std::size_t>(e.peer));
        value = value + e.weight * (detail::turned(angle) - one);
      }
      values.push_back(value);
    }
    return values;
  }

  /// x and u of one mode after a round: {{a, b}, {c, d}} of the header's maps.
  static std::array<complex, 4> map_of(complex value, consensus c) {
    const double beta = c.momentum;
    const complex off = one - value;
    if (c.nesterov) return {one - (1 + beta) * off, {-beta * beta}, off, {beta}};
    return {value, {-beta}, off, {beta}};
  }

  [[nodiscard]] double of_modes(consensus c, double theta) const {
    double largest = 0;
    for (std::size_t k = 0; k + 1 < ranks_; ++k) {
      std::array<complex, 4> all{one, {}, {}, one};
      for (const auto& round : modes_) {
        const auto m = map_of(complex{1 - theta} + theta * round[k], c);
        all = {m[0] * all[0] + m[1] * all[2], m[0] * all[1] + m[1] * all[3],
               m[2] * all[0] + m[3] * all[2], m[2] * all[1] + m[3] * all[3]};
      }
      const complex half = 0.5 * (all[0] + all[3]);
      const complex root = sqrt(half * half - (all[0] * all[3] - all[1] * all[2]));
      largest = std::max({largest, abs(half + root), abs(half - root)});
    }
    return largest;
  }

  [[nodiscard]] double off_mean(const detail::square& w, std::size_t i, std::size_t j) const {
    return w(i, j) - 1 / static_cast<double>(ranks_);
  }

  /// All ranks' x and u; the mean becomes a mode of eigenvalue 0, which is never the largest.
  [[nodiscard]] double of_all_ranks(consensus c, double theta, bool to_decide) const {
    const double beta = c.momentum, mixed = c.nesterov ? 1 + beta : 1;
    detail::square all{};
    for (const detail::square& w : matrices_) {
      detail::square map{2 * ranks_};
      for (std::size_t i = 0; i < ranks_; ++i) {
        for (std::size_t j = 0; j < ranks_; ++j) {
          const double here = i == j ? 1 : 0,
                       off = theta * off_mean(w, i, j) +
                             (1 - theta) * (here - 1 / static_cast<double>(ranks_));
          map(i, j) = here - mixed * (here - off);
          map(ranks_ + i, j) = here - off;
        }
        map(i, ranks_ + i) = c.nesterov ? -beta * beta : -beta;
        map(ranks_ + i, ranks_ + i) = beta;
      }
      all = all.n == 0 ? map : map * all;
    }
    return detail::spectral_radius(all, to_decide);
  }

  /// E|x|^2, E<x, u>, E|u|^2 over the matchings.
  [[nodiscard]] double of_matchings(consensus c, double theta, bool to_decide) const {
    const double b = c.momentum, p = static_cast<double>(ranks_), m = theta * p / (2 * (p - 1)),
                 k = 1 + b;
    const detail::square moments{
        3, c.nesterov
               ? std::vector<double>{1 - 2 * k * m + k * k * theta * m, -2 * b * b * (1 - k * m),
                                     b * b * b * b, m - k * theta * m, b * (1 - k * m) - b * b * m,
                                     -b * b * b, theta * m, 2 * b * m, b * b}
               : std::vector<double>{1 - 2 * m + theta * m, -2 * b * (1 - m), b * b, m - theta * m,
                                     b * (1 - 2 * m), -b * b, theta * m, 2 * b * m, b * b}};
    return std::sqrt(detail::spectral_radius(moments, to_decide));
  }

  /// Where `good` first fails between `least` and 1, from below: 1 if nowhere, 0 if at once.
  template <class Good>
  static double first_failure(double least, const Good& good) {
    constexpr int steps = 32;
    constexpr double almost = 1 - 1e-6;
    if (!good(least)) return 0;
    double low = least, high = least;
    for (int k = 1; k <= steps && high == least; ++k) {
      const double x = std::min(almost, static_cast<double>(k) / steps);
      (good(x) ? low : high) = x;
    }
    if (high == least) return 1;
    while (high - low > 1e-9) {
      const double x = (low + high) / 2;
      (good(x) ? low : high) = x;
    }
    return low;
  }

  std::size_t ranks_;
  int rounds_;
  double matching_ = 0;                      // theta of uniform matchings
  std::vector<std::vector<complex>> modes_;  // (rounds, ranks - 1)
  std::vector<detail::square> matrices_;     // (rounds)
};

/// 1 - rho: by which the disagreement of so many ranks shrinks a round on this graph.
template <Graph G>
double spectral_gap(const G& graph, int ranks) {
  return stability{graph, ranks}.spectral_gap();
}

}  // namespace cordee::inline CORDEE_ABI
