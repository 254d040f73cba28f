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
  /// Columns, or rows, that are computed side by side.
  static constexpr std::size_t side_by_side = 8;
  using row = std::array<double, side_by_side>;

  /// Factors `k`, (n, n), of which the lower triangle is read. Throws error if it is not positive
  /// definite.
  explicit cholesky(std::vector<double> k, std::size_t n) : l_(std::move(k)), n_(n) {
    for (std::size_t j = 0; j < n; ++j) {
      double sum = at(j, j);
      for (std::size_t c = 0; c < j; ++c) sum -= at(j, c) * at(j, c);
      if (!(sum > 0)) throw error("cholesky: the matrix is not positive definite");
      at(j, j) = core::sqrt(sum);
      for (std::size_t i = j + 1; i < n; i += side_by_side) fill_rows(i, j);
    }
  }
  /// Each of the columns, (n), becomes L^-1 times it. Rows before `first` are zeros.
  void solve_lower(std::span<row> columns, std::size_t first = 0) const {
    row* const x = columns.data();
    for (std::size_t i = first; i < n_; ++i) {
      row sum = x[i];
      for (std::size_t c = first; c < i; ++c) subtract(sum.data(), at(i, c), x[c].data());
      divide(sum.data(), at(i, i));
      x[i] = sum;
    }
  }
  /// Each of the columns, (n), becomes K^-1 times it. Rows before `first` are zeros.
  void solve(std::span<row> columns, std::size_t first = 0) const {
    solve_lower(columns, first);
    row* const x = columns.data();
    for (std::size_t i = n_; i-- > 0;) {
      row value = x[i];
      divide(value.data(), at(i, i));
      x[i] = value;
      for (std::size_t c = 0; c < i; ++c) subtract(x[c].data(), at(i, c), value.data());
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
  [[gnu::always_inline]] static void subtract(double* from, double factor, const double* other) {
#pragma GCC unroll 8
    for (std::size_t k = 0; k < side_by_side; ++k) from[k] -= factor * other[k];
  }
  [[gnu::always_inline]] static void divide(double* x, double by) {
#pragma GCC unroll 8
    for (std::size_t k = 0; k < side_by_side; ++k) x[k] /= by;
  }
  // Elements (i, j) and below of L, of eight rows or those that are left.
  void fill_rows(std::size_t i, std::size_t j) {
    double* from[side_by_side];
    double sum[side_by_side];
    for (std::size_t r = 0; r < side_by_side; ++r) {
      from[r] = &at(std::min(i + r, n_ - 1), 0);
      sum[r] = from[r][j];
    }
    for (std::size_t c = 0; c < j; ++c)
#pragma GCC unroll 8
      for (std::size_t r = 0; r < side_by_side; ++r) sum[r] -= at(j, c) * from[r][c];
    divide(sum, at(j, j));
    for (std::size_t r = 0; r < side_by_side; ++r) from[r][j] = sum[r];
  }
  [[gnu::always_inline]] double& at(std::size_t i, std::size_t j) { return l_[i * n_ + j]; }
  [[nodiscard, gnu::always_inline]] double at(std::size_t i, std::size_t j) const {
    return l_[i * n_ + j];
  }

  std::vector<double> l_;  // (n, n)
  std::size_t n_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::core
