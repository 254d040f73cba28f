// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The Cholesky factorization of symmetric matrices of up to a few thousand rows, and solutions with
// it. Plain loops along rows, which a compiler leaves in the cache.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>

namespace cordee::inline CORDEE_ABI::detail::core {

/// A lower triangle L of K = L L^T; K symmetric and positive definite.
class cholesky {
 public:
  /// Factors `k`, (n, n), of which the lower triangle is read. Throws error if it is not positive
  /// definite.
  explicit cholesky(std::vector<double> k, std::size_t n) : l_(std::move(k)), n_(n) {
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t i = j; i < n; ++i) {
        double sum = at(i, j);
        for (std::size_t c = 0; c < j; ++c) sum -= at(i, c) * at(j, c);
        if (i > j)
          at(i, j) = sum / at(j, j);
        else if (sum > 0)
          at(j, j) = core::sqrt(sum);
        else
          throw error("cholesky: the matrix is not positive definite");
      }
  }
  /// x becomes L^-1 x.
  void solve_lower(std::span<double> x) const {
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t c = 0; c < i; ++c) x[i] -= at(i, c) * x[c];
      x[i] /= at(i, i);
    }
  }
  /// x becomes K^-1 x.
  void solve(std::span<double> x) const {
    solve_lower(x);
    for (std::size_t i = n_; i-- > 0;) {
      x[i] /= at(i, i);
      for (std::size_t c = 0; c < i; ++c) x[c] -= at(i, c) * x[i];
    }
  }
  /// Element (i, j) of L, j <= i.
  [[nodiscard]] double lower(std::size_t i, std::size_t j) const { return at(i, j); }
  [[nodiscard]] double log_diagonal() const {
    double sum = 0;
    for (std::size_t i = 0; i < n_; ++i) sum += core::log(at(i, i));
    return sum;
  }

 private:
  double& at(std::size_t i, std::size_t j) { return l_[i * n_ + j]; }
  [[nodiscard]] double at(std::size_t i, std::size_t j) const { return l_[i * n_ + j]; }

  std::vector<double> l_;  // (n, n)
  std::size_t n_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::core
