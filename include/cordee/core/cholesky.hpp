// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The Cholesky factorization of symmetric matrices of up to a few thousand rows, and solutions with
// it. Plain loops along rows, which a compiler leaves in the cache. Several columns are solved side
// by side: the sums of one wait for each other, those of eight do not.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>

namespace cordee::inline CORDEE_ABI::detail::core {

/// A lower triangle L of K = L L^T; K symmetric and positive definite.
class cholesky {
 public:
  /// Columns that are solved side by side.
  static constexpr std::size_t side_by_side = 8;
  using row = std::array<double, side_by_side>;

  /// Factors `k`, (n, n), of which the lower triangle is read. Throws error if it is not positive
  /// definite.
  explicit cholesky(std::vector<double> k, std::size_t n) : l_(std::move(k)), n_(n) {
    for (std::size_t j = 0; j < n; ++j) {
      subtract_products(j, j, 1);
      if (!(at(j, j) > 0)) throw error("cholesky: the matrix is not positive definite");
      at(j, j) = core::sqrt(at(j, j));
      for (std::size_t i = j + 1; i < n; i += side_by_side) {
        const std::size_t rows = std::min(side_by_side, n - i);
        subtract_products(i, j, rows);
        for (std::size_t r = 0; r < rows; ++r) at(i + r, j) /= at(j, j);
      }
    }
  }
  /// The columns of x, (n), become L^-1 x. Rows before `first` are zeros.
  void solve_lower(std::span<row> x, std::size_t first = 0) const {
    for (std::size_t i = first; i < n_; ++i) {
      row sum = x[i];
      for (std::size_t c = first; c < i; ++c) subtract(sum, at(i, c), x[c]);
      divide(sum, at(i, i));
      x[i] = sum;
    }
  }
  /// The columns of x, (n), become K^-1 x. Rows before `first` are zeros.
  void solve(std::span<row> x, std::size_t first = 0) const {
    solve_lower(x, first);
    for (std::size_t i = n_; i-- > 0;) {
      row value = x[i];
      divide(value, at(i, i));
      x[i] = value;
      for (std::size_t c = 0; c < i; ++c) subtract(x[c], at(i, c), value);
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
  // From elements (i .. i + rows - 1, j): the products of their rows and row j, before column j.
  void subtract_products(std::size_t i, std::size_t j, std::size_t rows) {
    row sum{};
    for (std::size_t k = 0; k < rows; ++k) sum[k] = at(i + k, j);
    for (std::size_t c = 0; c < j; ++c)
      for (std::size_t k = 0; k < rows; ++k) sum[k] -= at(i + k, c) * at(j, c);
    for (std::size_t k = 0; k < rows; ++k) at(i + k, j) = sum[k];
  }
  static void subtract(row& from, double factor, const row& other) {
    for (std::size_t k = 0; k < side_by_side; ++k) from[k] -= factor * other[k];
  }
  static void divide(row& x, double by) {
    for (double& number : x) number /= by;
  }
  double& at(std::size_t i, std::size_t j) { return l_[i * n_ + j]; }
  [[nodiscard]] double at(std::size_t i, std::size_t j) const { return l_[i * n_ + j]; }

  std::vector<double> l_;  // (n, n)
  std::size_t n_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::core
