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
    std::vector<double> residual(n), alpha(n), column(n);
    for (std::size_t i = 0; i < n; ++i) alpha[i] = residual[i] = y[i] - mean();
    factor.solve(alpha);
    double fit = 0, by_mean = 0, by_scale = 0, by_noise = 0;
    for (std::size_t j = 0; j < n; ++j) {
      fit += residual[j] * alpha[j];
      by_mean += alpha[j];
      std::fill(column.begin(), column.end(), 0);
      column[j] = 1;
      factor.solve(column);  // of K^-1
      // tr((alpha alpha^T - K^-1) dK) / 2, where dK is the kernel without its scale, or I.
      for (std::size_t i = 0; i < n; ++i)
        by_scale += (alpha[i] * alpha[j] - column[i]) * shape(x[i], x[j]) / 2;
      by_noise += (alpha[j] * alpha[j] - column[j]) / 2;
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
    const cholesky factor = factored(x);
    std::vector<double> alpha(n), at_last(n), column(n);
    for (std::size_t i = 0; i < n; ++i) alpha[i] = y[i] - mean();
    factor.solve(alpha);
    for (std::size_t i = 0; i < n; ++i) at_last[i] = scale() * shape(x[i], grid[last]);
    factor.solve_lower(at_last);
    gp_prediction out;
    for (const double g : grid) {
      double mu = mean(), variance = scale(), with_last = scale() * shape(g, grid[last]);
      for (std::size_t i = 0; i < n; ++i) {
        column[i] = scale() * shape(x[i], g);
        mu += column[i] * alpha[i];
      }
      factor.solve_lower(column);
      for (std::size_t i = 0; i < n; ++i) {
        variance -= column[i] * column[i];
        with_last -= column[i] * at_last[i];
      }
      out.mean.push_back(mu);
      out.variance.push_back(variance);
      out.with_last.push_back(with_last);
    }
    return out;
  }

 private:
  static double softplus(double x) { return core::log1p(core::exp(x)); }
  static double sigmoid(double x) { return 1 / (1 + core::exp(-x)); }
  static double shape(double x, double y) {
    return core::exp(-(x - y) * (x - y) / (2 * length * length));
  }
  [[nodiscard]] cholesky factored(std::span<const double> x) const {
    const std::size_t n = x.size();
    std::vector<double> k(n * n);  // (n, n)
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j <= i; ++j)
        k[i * n + j] = scale() * shape(x[i], x[j]) + (i == j ? noise() : 0);
    return cholesky(std::move(k), n);
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::schedule
