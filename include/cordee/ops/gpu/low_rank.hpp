// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// GPU overloads of comm/reducers/low_rank.hpp: products of a matrix X (rows, cols) with P (rows,
// rank) and the transpose of Q (rank, cols). Extent has these sides. Sums are in one order, which
// is not the CPU's.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>

#include <cordee/core/random.hpp>
#include <cordee/device/gpu_kernel.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// P <- X Q; a block has a row.
template <class Real>
struct project_rows_kernel {
  static constexpr int threads = 256;
  const Real *x, *q;
  Real* p;
  std::size_t cols, rank;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const std::size_t row = b.index();
    for (std::size_t k = 0; k < rank; ++k) {
      Real sum = 0;
      for (auto j = static_cast<std::size_t>(b.thread()); j < cols; j += threads)
        sum += x[row * cols + j] * q[k * cols + j];
      sum = b.sum(sum);
      if (b.thread() == 0) p[row * rank + k] = sum;
    }
  }
};
/// Q <- X^T P, one number of it
template <class Real>
struct project_cols_op {
  static constexpr std::size_t numbers_per_thread = 1;  // it divides
  const Real *x, *p;
  Real* q;
  std::size_t rows, cols, rank;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    const std::size_t k = i / cols, j = i - k * cols;
    Real sum = 0;
    for (std::size_t row = 0; row < rows; ++row) sum += x[row * cols + j] * p[row * rank + k];
    q[i] = sum;
  }
};
/// Y <- X + sign P Q^T, one number of it, without X where it is null
template <class Real>
struct add_outer_product_op {
  static constexpr std::size_t numbers_per_thread = 1;  // it divides
  const Real* x;
  Real sign;
  const Real *p, *q;
  Real* y;
  std::size_t cols, rank;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    const std::size_t row = i / cols, j = i - row * cols;
    Real sum = x != nullptr ? x[i] : Real{0};
    for (std::size_t k = 0; k < rank; ++k) sum += sign * p[row * rank + k] * q[k * cols + j];
    y[i] = sum;
  }
};
/// Makes the columns of P orthonormal: the CPU's orthonormalize, by one block, whose threads have
/// rows of their own.
template <class Real>
struct orthonormalize_kernel {
  static constexpr int threads = 256;
  Real* p;
  std::size_t rows, rank;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const auto first = static_cast<std::size_t>(b.thread());
    const auto dot = [&](std::size_t one, std::size_t other) {
      double sum = 0;
      for (std::size_t i = first; i < rows; i += threads)
        sum += static_cast<double>(p[i * rank + one]) * static_cast<double>(p[i * rank + other]);
      return b.sum(sum);
    };
    for (std::size_t k = 0; k < rank; ++k) {
      const double before = std::sqrt(dot(k, k));
      for (int pass = 0; pass < 2; ++pass)
        for (std::size_t j = 0; j < k; ++j) {
          const auto along = static_cast<Real>(dot(j, k));
          for (std::size_t i = first; i < rows; i += threads)
            p[i * rank + k] -= along * p[i * rank + j];
        }
      const double norm = std::sqrt(dot(k, k));
      constexpr double rounding = 16 * static_cast<double>(std::numeric_limits<Real>::epsilon());
      const bool depends = before - before == 0 && norm <= rounding * before;
      for (std::size_t i = first; i < rows; i += threads)
        p[i * rank + k] =
            depends ? Real{0} : static_cast<Real>(static_cast<double>(p[i * rank + k]) / norm);
    }
  }
};
/// cos(2 pi u), 0 <= u < 1, by its series; CUDA's cos of a double reduces large numbers in local
/// memory.
CORDEE_DEVICE inline double cosine_of_turns(double u) {
  const double half = u > 0.5 ? 1 - u : u, quarter = half > 0.25 ? 0.5 - half : half;
  const double x = 2 * std::numbers::pi * quarter;
  double sum = 1;  // up to x^24 / 24!, below 1e-19
  for (int n = 24; n > 0; n -= 2) sum = 1 - x * x / (n * (n - 1)) * sum;
  return half > 0.25 ? -sum : sum;
}
/// Normal numbers in columns of Q that are zero: those of random_sequence(seed, projection, step,
/// offset), of which column k has subsequence k. A block has a column.
template <class Real>
struct draw_zero_columns_kernel {
  static constexpr int threads = 256;
  Real* q;
  std::size_t cols;
  std::uint64_t seed, step, offset;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    Real* const column = q + b.index() * cols;
    float others = 0;
    for (auto j = static_cast<std::size_t>(b.thread()); j < cols; j += threads)
      if (column[j] != 0) others = 1;
    if (b.sum(others) != 0) return;
    const auto use = static_cast<std::uint32_t>(purpose::projection) << 24 |
                     static_cast<std::uint32_t>(step & 0xffffff);
    const auto low = static_cast<std::uint32_t>(offset),
               high = static_cast<std::uint32_t>(offset >> 32);
    const core::philox_block key =
        core::philox({static_cast<std::uint32_t>(b.index()), ~use, low, high}, seed);
    const std::uint64_t own_seed = std::uint64_t{key[0]} << 32 | key[1];
    for (auto j = static_cast<std::size_t>(b.thread()); j < cols; j += threads) {
      const core::philox_block bits =
          core::philox({static_cast<std::uint32_t>(j), use, low, high}, own_seed);
      const auto uniform = [&](std::uint32_t upper, std::uint32_t lower) {
        return static_cast<double>((std::uint64_t{upper} << 32 | lower) >> 11) * 0x1p-53;
      };
      const double radius = std::sqrt(-2 * std::log1p(-uniform(bits[0], bits[1])));
      column[j] = static_cast<Real>(radius * cosine_of_turns(uniform(bits[2], bits[3])));
    }
  }
};

template <class Extent, class Real, GpuStream S>
void project_rows(const Extent& e, const Real* x, const Real* q, Real* p, S s) {
  s.launch_kernel(e.rows, project_rows_kernel<Real>{x, q, p, e.cols, e.rank});
}
template <class Extent, class Real, GpuStream S>
void project_cols(const Extent& e, const Real* x, const Real* p, Real* q, S s) {
  for_each(s, e.rank * e.cols, project_cols_op<Real>{x, p, q, e.rows, e.cols, e.rank});
}
template <class Extent, class Real, GpuStream S>
void add_outer_product(const Extent& e, const Real* x, Real sign, const Real* p, const Real* q,
                       Real* y, S s) {
  for_each(s, e.rows * e.cols, add_outer_product_op<Real>{x, sign, p, q, y, e.cols, e.rank});
}
template <class Extent, class Real, GpuStream S>
void orthonormalize(const Extent& e, Real* p, S s) {
  s.launch_kernel(1, orthonormalize_kernel<Real>{p, e.rows, e.rank});
}
template <class Extent, class Real, GpuStream S>
void draw_zero_columns(const Extent& e, std::uint64_t seed, std::int64_t step, std::size_t offset,
                       Real* q, S s) {
  s.launch_kernel(e.rank, draw_zero_columns_kernel<Real>{q, e.cols, seed,
                                                         static_cast<std::uint64_t>(step), offset});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
