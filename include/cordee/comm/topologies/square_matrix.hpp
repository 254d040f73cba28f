// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Square matrices of double, and their spectral radius; for stability.hpp.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <cordee/core/config.hpp>
#include <cordee/core/math.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// (n, n), row-major.
struct square_matrix {
  std::size_t n = 0;
  std::vector<double> values = std::vector<double>(n * n);

  double& operator()(std::size_t i, std::size_t j) { return values[i * n + j]; }
  double operator()(std::size_t i, std::size_t j) const { return values[i * n + j]; }
};

inline square_matrix operator*(const square_matrix& a, const square_matrix& b) {
  square_matrix c{a.n};
  for (std::size_t i = 0; i < a.n; ++i)
    for (std::size_t k = 0; k < a.n; ++k)
      if (const double x = a(i, k); x != 0)
        for (std::size_t j = 0; j < a.n; ++j) c(i, j) += x * b(k, j);
  return c;
}

/// Gelfand: |A^n|^(1/n) converges to the spectral radius; n doubles. `compare_to_one`: stop as soon
/// as it is known on which side of one the radius lies: below if |A^n| < 1, above if
/// |trace A^n| > rows.
inline double spectral_radius(square_matrix a, bool compare_to_one) {
  double log_norm = 0, n = 1, radius = 0;  // A^n = exp(log_norm) a, |a| = 1
  for (int squarings = 0; squarings < 46; ++squarings) {
    double norm = 0, trace = 0;
    for (const double x : a.values) norm += x * x;
    norm = core::sqrt(norm);
    if (norm == 0) return 0;
    for (double& x : a.values) x /= norm;
    log_norm += core::log(norm);
    const double before = std::exchange(radius, core::exp(log_norm / n));
    if (squarings > 8 && core::abs(radius - before) <= 1e-15 * radius) break;
    for (std::size_t i = 0; i < a.n; ++i) trace += a(i, i);
    if (compare_to_one && (log_norm < 0 || core::log(core::abs(trace)) + log_norm >
                                               core::log(static_cast<double>(a.n))))
      break;
    a = a * a;
    log_norm *= 2;
    n *= 2;
  }
  return radius;
}

}  // namespace cordee::inline CORDEE_ABI::detail::comm
