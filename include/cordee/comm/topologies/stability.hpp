// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Stability of momentum under gossip: how much the ranks' disagreement grows in a round, whatever
// the data, when an optimizer feeds the displacement x - W x into its momentum.
//
//   heavy ball    u <- beta u + (1 - l) x,   x <- x - u                    for each eigenvalue l
//   Nesterov      u <- beta u + (1 - l) x,   x <- x - (1 - l) x - beta u   of W but the mean's
//   quasi-global  y = l (x - b u),  u <- mu u + (1 - mu) (x - y),  x <- y  b: beta; Nesterov beta^2
//   radius        of the product of one period's maps, per round; stable while it is below 1
//
// Translation-invariant topologies have the characters of their group as modes: 2 x 2 maps, cheap
// at thousands of ranks. Uniform random matchings have second moments. For any other topology the
// map of all ranks is squared repeatedly (Gelfand's formula), up to 128 ranks.
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include <cordee/comm/topologies/square_matrix.hpp>
#include <cordee/comm/topologies/topology.hpp>
#include <cordee/core/algorithm.hpp>
#include <cordee/core/complex.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/training_step.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// The eigenvalues of a topology on so many ranks, and what follows from them.
class stability {
 public:
  template <Topology T>
  stability(const T& topology, int ranks)
      : ranks_(static_cast<std::size_t>(ranks)), rounds_(topology.period(ranks)) {
    if (ranks == 1) return;
    if (rounds_ == 0) {
      if constexpr (UniformMatching<T>)
        matching_ =
            2 * std::span<const topologies::edge>(topology.in_edges(0, ranks, 0)).front().weight;
      if (ranks == 2 && matching_ > 0) {  // one matching alone, a fixed topology
        rounds_ = 1;
        modes_ = {{complex{1 - std::exchange(matching_, 0)}}};
      }
    } else if constexpr (TranslationInvariant<T>) {
      const std::vector<int> dimensions = topology.dimensions(ranks);
      for (int round = 0; round < rounds_; ++round)
        modes_.push_back(characters(dimensions, topology.in_edges(0, ranks, round)));
    } else if (ranks <= max_ranks) {
      for (int round = 0; round < rounds_; ++round) {
        square_matrix w{ranks_};
        for (std::size_t i = 0; i < ranks_; ++i) {
          w(i, i) = 1;
          const auto& edges = topology.in_edges(static_cast<int>(i), ranks, round);
          for (const topologies::edge& e : std::span<const topologies::edge>(edges)) {
            w(i, static_cast<std::size_t>(e.peer)) += e.weight;
            w(i, i) -= e.weight;
          }
        }
        matrices_.push_back(w);
      }
    }
  }

  /// Whether the values below are known; otherwise they are NaN: for random topologies other than
  /// uniform matchings, and for more than 128 ranks where there is no translation invariance.
  [[nodiscard]] bool is_known() const {
    return ranks_ == 1 || matching_ > 0 || !modes_.empty() || !matrices_.empty();
  }

  /// Growth of the disagreement in a round under this momentum, on lazy{topology, theta}. Over
  /// random matchings it is that of the mean square, the stricter sense.
  [[nodiscard]] double spectral_radius(momentum_form c, double theta = 1) const {
    return radius(c, theta, false);
  }

  /// 1 - rho, where rho multiplies the disagreement in a round without momentum.
  [[nodiscard]] double spectral_gap() const {
    if (matrices_.size() != 1) return std::max(1 - spectral_radius(momentum_form{}), 0.0);
    // A matrix that is not normal can contract less in one round than asymptotically.
    const square_matrix& w = matrices_.front();
    square_matrix gram{ranks_};
    for (std::size_t k = 0; k < ranks_; ++k)
      for (std::size_t i = 0; i < ranks_; ++i)
        for (std::size_t j = 0; j < ranks_; ++j)
          gram(i, j) += off_mean(w, k, i) * off_mean(w, k, j);
    return std::max(1 - core::sqrt(comm::spectral_radius(gram, false)), 0.0);
  }

  /// Every momentum below it is stable; 1 if all are.
  [[nodiscard]] double largest_momentum(momentum_form c) const {
    return first_failure(0, [&](double beta) {
      c.momentum = beta;
      return is_stable(c, 1);
    });
  }

  /// lazy{topology, theta} is stable with any theta below it; 1 if the topology itself is, 0 if
  /// none is.
  [[nodiscard]] double largest_theta(momentum_form c) const {
    if (is_stable(c, 1)) return 1;
    return first_failure(1e-6, [&](double theta) { return is_stable(c, theta); });
  }

 private:
  using complex = detail::core::complex;
  static constexpr complex one{1};
  static constexpr int max_ranks = 128;

  [[nodiscard]] bool is_stable(momentum_form c, double theta) const {
    return radius(c, theta, true) < detail::core::largest_stable_radius;
  }

  [[nodiscard]] double radius(momentum_form c, double theta, bool compare_to_one) const {
    if (ranks_ == 1) return 0;
    if (!is_known()) return std::numeric_limits<double>::quiet_NaN();
    if (matching_ > 0) return radius_of_matchings(c, theta * matching_, compare_to_one);
    const double of_period =
        modes_.empty() ? radius_of_all_ranks(c, theta, compare_to_one) : radius_of_modes(c, theta);
    // After a period that leaves the exact mean only rounding errors remain; their root is not
    // small.
    return of_period < 1e-14 ? 0 : core::pow(of_period, 1.0 / rounds_);
  }

  /// The eigenvalues of one round without the mean's: mode k turns by k . s / dimensions over an
  /// edge from rank s.
  static std::vector<complex> characters(const std::vector<int>& dimensions,
                                         std::span<const topologies::edge> edges) {
    std::size_t p = 1;
    for (const int order : dimensions) p *= static_cast<std::size_t>(order);
    const auto turns = [&](std::size_t k, std::size_t s) {
      double sum = 0;
      for (std::size_t a = dimensions.size(); a-- > 0;) {
        const auto n = static_cast<std::size_t>(dimensions[a]);
        sum += static_cast<double>(k % n * (s % n) % n) / static_cast<double>(n);
        k /= n;
        s /= n;
      }
      return sum;
    };
    std::vector<complex> values;
    for (std::size_t k = 1; k < p; ++k) {
      complex value = one;
      for (const topologies::edge& e : edges) {
        const double angle = 2 * std::numbers::pi * turns(k, static_cast<std::size_t>(e.peer));
        value = value + e.weight * (detail::core::unit_complex(angle) - one);
      }
      values.push_back(value);
    }
    return values;
  }

  /// x and u of one mode after a round: {{a, b}, {c, d}} of the header's maps, linear in the
  /// eigenvalue.
  static std::array<complex, 4> map_of(complex value, momentum_form c) {
    const double beta = c.momentum, mu = c.smoothing;
    const complex off = one - value;
    if (c.quasi_global) {
      const double b = c.nesterov ? beta * beta : beta;
      return {value, -b * value, (1 - mu) * off, complex{mu} + (1 - mu) * b * value};
    }
    if (c.nesterov) return {value - beta * off, {-beta * beta}, off, {beta}};
    return {value, {-beta}, off, {beta}};
  }
  static complex determinant_of(complex value, momentum_form c) {
    const double beta = c.momentum, mu = c.smoothing;
    if (c.quasi_global) return (mu + (1 - mu) * (c.nesterov ? beta * beta : beta)) * value;
    return c.nesterov ? beta * value : complex{beta};
  }

  [[nodiscard]] double radius_of_modes(momentum_form c, double theta) const {
    double largest = 0;
    for (std::size_t k = 0; k + 1 < ranks_; ++k) {
      std::array<complex, 4> product{one, {}, {}, one};  // of the period's maps
      complex determinant = one;  // a factor each, which may be zero: a difference would not be
      for (const auto& round : modes_) {
        const complex value = complex{1 - theta} + theta * round[k];
        const auto m = map_of(value, c);
        determinant = determinant * determinant_of(value, c);
        product = {m[0] * product[0] + m[1] * product[2], m[0] * product[1] + m[1] * product[3],
                   m[2] * product[0] + m[3] * product[2], m[2] * product[1] + m[3] * product[3]};
      }
      const complex half = 0.5 * (product[0] + product[3]);
      const complex root = sqrt(half * half - determinant);
      largest = std::max({largest, abs(half + root), abs(half - root)});
    }
    return largest;
  }

  [[nodiscard]] double off_mean(const square_matrix& w, std::size_t i, std::size_t j) const {
    return w(i, j) - 1 / static_cast<double>(ranks_);
  }

  /// The map of all ranks' x and u, with the mean's part removed.
  [[nodiscard]] double radius_of_all_ranks(momentum_form c, double theta,
                                           bool compare_to_one) const {
    const auto constant = map_of({}, c), slope = map_of(one, c);
    square_matrix product{};
    for (const square_matrix& w : matrices_) {
      square_matrix map{2 * ranks_};
      for (std::size_t i = 0; i < ranks_; ++i)
        for (std::size_t j = 0; j < ranks_; ++j) {
          const double identity = (i == j ? 1 : 0) - 1 / static_cast<double>(ranks_),
                       off = theta * off_mean(w, i, j) + (1 - theta) * identity;
          for (std::size_t k = 0; k < 4; ++k)
            map(k / 2 * ranks_ + i, k % 2 * ranks_ + j) =
                constant[k].re * identity + (slope[k].re - constant[k].re) * off;
        }
      product = product.n == 0 ? map : map * product;
    }
    return comm::spectral_radius(product, compare_to_one);
  }

  /// From the map of E|x|^2, E<x, u> and E|u|^2 over the matchings, of which a pair's difference is
  /// the share p / (2 (p - 1)) of |x|^2.
  [[nodiscard]] double radius_of_matchings(momentum_form c, double theta,
                                           bool compare_to_one) const {
    const double p = static_cast<double>(ranks_), in_pair = p / (2 * (p - 1));
    square_matrix moments{3};
    const auto add = [&](double weight, double value) {
      const auto m = map_of({value}, c);
      const double xx = m[0].re, xu = m[1].re, ux = m[2].re, uu = m[3].re;
      const std::array row{xx * xx, 2 * xx * xu, xu * xu,     xx * ux, xx * uu + xu * ux,
                           xu * uu, ux * ux,     2 * ux * uu, uu * uu};
      for (std::size_t k = 0; k < row.size(); ++k) moments.values[k] += weight * row[k];
    };
    add(1 - in_pair, 1);
    add(in_pair, 1 - theta);
    return core::sqrt(comm::spectral_radius(moments, compare_to_one));
  }

  /// The smallest x between `least` and 1 at which `holds(x)` is false: 1 if none, 0 if `least`.
  template <class Predicate>
  static double first_failure(double least, const Predicate& holds) {
    constexpr int steps = 32;
    constexpr double almost_one = 1 - 1e-6;
    if (!holds(least)) return 0;
    double low = least, high = least;
    for (int k = 1; k <= steps && high == least; ++k) {
      const double x = std::min(almost_one, static_cast<double>(k) / steps);
      (holds(x) ? low : high) = x;
    }
    if (high == least) return 1;
    while (high - low > 1e-9) {
      const double x = (low + high) / 2;
      (holds(x) ? low : high) = x;
    }
    return low;
  }

  std::size_t ranks_;
  int rounds_;
  double matching_ = 0;                      // theta of uniform matchings, or 0
  std::vector<std::vector<complex>> modes_;  // (rounds, ranks - 1)
  std::vector<square_matrix> matrices_;      // (rounds)
};

/// 1 - rho, where rho multiplies the disagreement of so many ranks in a round.
template <Topology T>
double spectral_gap(const T& topology, int ranks) {
  return stability{topology, ranks}.spectral_gap();
}

}  // namespace cordee::inline CORDEE_ABI::detail::comm
