// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Products of a tensor, read as a matrix X (rows, cols), with few directions: P (rows, rank) and
// the transpose of Q (rank, cols). Sums are in one order, whatever the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/random.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/cpu/elementwise.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// Sides of a tensor as a matrix, and the columns of its P and Q.
struct matrix_extent {
  std::size_t rows = 0, cols = 0, rank = 0;

  /// The first side of a tensor, and the product of the others.
  constexpr matrix_extent(const segment& s, int of_rank) : rank(static_cast<std::size_t>(of_rank)) {
    if (s.shape[0] > 0) rows = static_cast<std::size_t>(s.shape[0]);
    if (rows > 0 && s.size % rows == 0) cols = s.size / rows;
  }
  /// Whether P and Q together are more than `times` times smaller than X.
  [[nodiscard]] constexpr bool shrinks(double times) const {
    return static_cast<double>((rows + cols) * rank) * times < static_cast<double>(rows * cols);
  }
};

/// P <- X Q
template <class Real>
void project_rows(const matrix_extent& e, const Real* x, const Real* q, Real* p, cpu::stream s) {
  constexpr std::size_t lanes = 64 / sizeof(Real);
  const std::size_t grain = (1u << 14) / e.cols + 1;
  device::parallel_chunks(s, e.rows, grain, [=](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i)
      for (std::size_t k = 0; k < e.rank; ++k) {
        const Real *const a = x + i * e.cols, *const b = q + k * e.cols;
        Real sums[lanes]{};
        std::size_t j = 0;
        for (; j + lanes <= e.cols; j += lanes)
          for (std::size_t l = 0; l < lanes; ++l) sums[l] += a[j + l] * b[j + l];
        Real sum = 0;
        for (; j < e.cols; ++j) sum += a[j] * b[j];
        for (const Real lane : sums) sum += lane;
        p[i * e.rank + k] = sum;
      }
  });
}

/// Q <- X^T P
template <class Real>
void project_cols(const matrix_extent& e, const Real* x, const Real* p, Real* q, cpu::stream s) {
  const std::size_t grain = (1u << 14) / e.rows + 64;
  device::parallel_chunks(s, e.cols, grain, [=](std::size_t first, std::size_t last) {
    for (std::size_t k = 0; k < e.rank; ++k)
      std::fill(q + k * e.cols + first, q + k * e.cols + last, Real{});
    for (std::size_t i = 0; i < e.rows; ++i)
      for (std::size_t k = 0; k < e.rank; ++k) {
        const Real factor = p[i * e.rank + k];
        const Real* const row = x + i * e.cols;
        Real* const sum = q + k * e.cols;
        ops::simd_for_each<Real>(first, last,
                                 [=](auto at) { at.put(sum, at(sum) + at(row) * factor); });
      }
  });
}

/// Y <- X + sign P Q^T, without X where it is null
template <class Real>
void add_outer_product(const matrix_extent& e, const Real* x, Real sign, const Real* p,
                       const Real* q, Real* y, cpu::stream s) {
  const std::size_t grain = (1u << 14) / e.cols + 1;
  device::parallel_chunks(s, e.rows, grain, [=](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      const Real *const from = x == nullptr ? nullptr : x + i * e.cols, *const factors =
                                                                            p + i * e.rank;
      Real* const to = y + i * e.cols;
      ops::simd_for_each<Real>(0, e.cols, [=](auto at) {
        auto sum = from != nullptr ? at(from) : at.zero();
        for (std::size_t k = 0; k < e.rank; ++k)
          sum += at(q + k * e.cols) * static_cast<Real>(sign * factors[k]);
        at.put(to, sum);
      });
    }
  });
}

/// Makes the columns of P orthonormal (Gram and Schmidt, twice, for orthogonality to rounding). One
/// that depends on those before becomes zero; NaN stays.
template <class Real>
void orthonormalize(const matrix_extent& e, Real* p, cpu::stream) {
  const auto dot = [&](std::size_t a, std::size_t b) {
    double sum = 0;
    for (std::size_t i = 0; i < e.rows; ++i)
      sum += static_cast<double>(p[i * e.rank + a]) * static_cast<double>(p[i * e.rank + b]);
    return sum;
  };
  for (std::size_t k = 0; k < e.rank; ++k) {
    const double before = core::sqrt(dot(k, k));
    for (int pass = 0; pass < 2; ++pass)
      for (std::size_t j = 0; j < k; ++j) {
        const auto along = static_cast<Real>(dot(j, k));
        for (std::size_t i = 0; i < e.rows; ++i) p[i * e.rank + k] -= along * p[i * e.rank + j];
      }
    const double norm = core::sqrt(dot(k, k));
    constexpr double rounding = 16 * static_cast<double>(std::numeric_limits<Real>::epsilon());
    const bool depends = core::isfinite(before) && norm <= rounding * before;
    for (std::size_t i = 0; i < e.rows; ++i) {
      Real& x = p[i * e.rank + k];
      x = depends ? Real{0} : static_cast<Real>(static_cast<double>(x) / norm);
    }
  }
}

/// Normal numbers in columns of Q that are zero, of a step and of the tensor at `offset`.
template <class Real>
void draw_zero_columns(const matrix_extent& e, std::uint64_t seed, std::int64_t step,
                       std::size_t offset, Real* q, cpu::stream) {
  for (std::size_t k = 0; k < e.rank; ++k, q += e.cols) {
    if (std::any_of(q, q + e.cols, [](Real x) { return x != 0; })) continue;
    random_sequence random =
        random_sequence(seed, purpose::projection, static_cast<std::uint64_t>(step), offset)
            .subsequence(static_cast<std::uint32_t>(k));
    for (std::size_t j = 0; j < e.cols; ++j) q[j] = static_cast<Real>(random.normal());
  }
}

}  // namespace cordee::inline CORDEE_ABI::detail::comm
