// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Regression of a curve by a Gaussian process, as AutoWU does it (Kim et al. 2021).
//
//   y(x) = m + f(x) + noise,   f ~ GP(0, k),   k(x, x') = s2 exp(-(x - x')^2 / (2 l^2)),   l = 0.2
//
//   K = k(X, X) + noise I = L L^T       alpha = K^-1 (y - m)
//   mean(x) = m + k(x, X) alpha         cov(x, x') = k(x, x') - k(x, X) K^-1 k(X, x')
//   log p(y) = -(y - m)^T alpha / 2 - sum log L_ii - n/2 log 2 pi
//
// m, s2 and the noise are fitted by Adam on -log p(y) / n, in the coordinates that gpytorch uses:
// s2 = softplus(a), noise = softplus(b) + 1e-4. A few hundred points, so Cholesky is a plain loop.
#pragma once

#include <array>
#include <cstddef>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/cholesky.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>

namespace cordee::inline CORDEE_ABI::detail::schedule {

using core::cholesky;

/// The mean of a curve on a grid, its variances, and the covariances of all points with the last.
struct gp_prediction {
  std::vector<double> mean, variance, with_last;  // (points) each
};

/// Probability that the curve has been lower than it is at its end: the largest one, over the
/// points before the last, that the curve there is below the last. 1e-4 is added to the variances
/// of the differences.
inline double past_minimum_probability(const gp_prediction& p) {
  const std::size_t last = p.mean.size() - 1;
  double most = 0;
  for (std::size_t i = 0; i < last; ++i) {
    const double variance = p.variance[i] + p.variance[last] - 2 * p.with_last[i] + 1e-4;
    const double z = (p.mean[last] - p.mean[i]) / core::sqrt(variance);
    most = std::max(most, core::erfc(-z / std::numbers::sqrt2) / 2);
  }
  return most;
}

/// The parameters and their fit; the numbers are a run's state.
struct gaussian_process {
  static constexpr double length = 0.2;

  // m, a, b; Adam's first moments of them, its second moments, and its steps.
  std::array<double, 10> numbers{0, 0, core::log(core::expm1(1e-3 - 1e-4))};

  [[nodiscard]] double mean() const { return numbers[0]; }
  [[nodiscard]] double scale() const { return softplus(numbers[1]); }
  [[nodiscard]] double noise() const { return softplus(numbers[2]) + 1e-4; }

  /// log p(y) / n, and its derivatives with respect to the parameters.
  double log_likelihood(std::span<const double> x, std::span<const double> y,
                        std::array<double, 3>& gradient) const {
    const std::size_t n = x.size();
    const cholesky factor = factored(x);
    const std::vector<double> alpha = solved(factor, y);
    std::vector<cholesky::row> inverse(n);  // some columns of K^-1
    double fit = 0, by_mean = 0, by_scale = 0, by_noise = 0;
    for (std::size_t j = 0; j < n; ++j) {
      fit += (y[j] - mean()) * alpha[j];
      by_mean += alpha[j];
      const std::size_t place = j % cholesky::side_by_side;
      if (place == 0) {
        std::fill(inverse.begin(), inverse.end(), cholesky::row{});
        for (std::size_t k = 0; k < cholesky::side_by_side && j + k < n; ++k) inverse[j + k][k] = 1;
        factor.solve(inverse, j);
      }
      // tr((alpha alpha^T - K^-1) dK) / 2, where dK is the kernel without its scale, or I.
      for (std::size_t i = 0; i < n; ++i)
        by_scale += (alpha[i] * alpha[j] - inverse[i][place]) * shape(x[i], x[j]) / 2;
      by_noise += (alpha[j] * alpha[j] - inverse[j][place]) / 2;
    }
    const auto count = static_cast<double>(n);
    gradient = {by_mean / count, by_scale * sigmoid(numbers[1]) / count,
                by_noise * sigmoid(numbers[2]) / count};
    return (-fit / 2 - factor.log_diagonal() - count / 2 * core::log(2 * std::numbers::pi)) / count;
  }

  /// So many steps of Adam, of learning rate 0.01.
  void fit(std::span<const double> x, std::span<const double> y, int iterations) {
    constexpr double learning_rate = 0.01, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
    for (int k = 0; k < iterations; ++k) {
      std::array<double, 3> gradient{};
      log_likelihood(x, y, gradient);
      const double steps = ++numbers[9];
      for (std::size_t i = 0; i < 3; ++i) {
        const double g = -gradient[i];
        double &first = numbers[3 + i], &second = numbers[6 + i];
        first = beta1 * first + (1 - beta1) * g;
        second = beta2 * second + (1 - beta2) * g * g;
        const double m = first / (1 - core::pow(beta1, steps));
        const double v = second / (1 - core::pow(beta2, steps));
        numbers[i] -= learning_rate * m / (core::sqrt(v) + epsilon);
      }
    }
  }

  /// The curve without noise on `grid`, given points of it.
  [[nodiscard]] gp_prediction predict(std::span<const double> x, std::span<const double> y,
                                      std::span<const double> grid) const {
    const std::size_t n = x.size(), last = grid.size() - 1;
    const double s2 = scale();
    const cholesky factor = factored(x);
    const std::vector<double> alpha = solved(factor, y);
    std::vector<cholesky::row> columns(n);  // L^-1 k(X, x) of some points x of the grid
    std::vector<double> at_last(n);
    for (std::size_t i = 0; i < n; ++i) columns[i][0] = s2 * shape(x[i], grid[last]);
    factor.solve_lower(columns);
    for (std::size_t i = 0; i < n; ++i) at_last[i] = columns[i][0];
    gp_prediction out;
    for (std::size_t first = 0; first < grid.size(); first += cholesky::side_by_side) {
      const auto points =
          grid.subspan(first, std::min(cholesky::side_by_side, grid.size() - first));
      for (std::size_t p = 0; p < points.size(); ++p) {
        double mu = mean();
        for (std::size_t i = 0; i < n; ++i) {
          columns[i][p] = s2 * shape(x[i], points[p]);
          mu += columns[i][p] * alpha[i];
        }
        out.mean.push_back(mu);
      }
      factor.solve_lower(columns);
      for (std::size_t k = 0; k < points.size(); ++k) {
        double variance = s2, with_last = s2 * shape(points[k], grid[last]);
        for (std::size_t i = 0; i < n; ++i) {
          variance -= columns[i][k] * columns[i][k];
          with_last -= columns[i][k] * at_last[i];
        }
        out.variance.push_back(variance);
        out.with_last.push_back(with_last);
      }
    }
    return out;
  }

 private:
  static double softplus(double x) { return core::log1p(core::exp(x)); }
  static double sigmoid(double x) { return 1 / (1 + core::exp(-x)); }
  static double shape(double x, double y) {
    return core::exp(-(x - y) * (x - y) / (2 * length * length));
  }
  /// K^-1 (y - m)
  [[nodiscard]] std::vector<double> solved(const cholesky& factor,
                                           std::span<const double> y) const {
    std::vector<cholesky::row> columns(y.size());
    std::vector<double> alpha(y.size());
    for (std::size_t i = 0; i < y.size(); ++i) columns[i][0] = y[i] - mean();
    factor.solve(columns);
    for (std::size_t i = 0; i < y.size(); ++i) alpha[i] = columns[i][0];
    return alpha;
  }
  [[nodiscard]] cholesky factored(std::span<const double> x) const {
    const std::size_t n = x.size();
    const double s2 = scale(), added = noise();
    std::vector<double> k(n * n);  // (n, n)
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j <= i; ++j)
        k[i * n + j] = s2 * shape(x[i], x[j]) + (i == j ? added : 0);
    return cholesky(std::move(k), n);
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::schedule
