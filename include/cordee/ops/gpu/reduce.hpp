// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// GPU overloads of the arithmetic of reducers (ops/cpu/elementwise.hpp); `add` is in
// ops/gpu/elementwise.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include <cordee/core/error.hpp>
#include <cordee/device/gpu_kernel.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

template <class Real>
struct divide_op {
  Real* x;
  Real divisor;
  CORDEE_DEVICE void operator()(std::size_t i) const { x[i] = x[i] / divisor; }
};

template <class Real>
struct add_then_divide_op {
  const Real* x;
  Real* y;
  Real divisor;
  CORDEE_DEVICE void operator()(std::size_t i) const { y[i] = (y[i] + x[i]) / divisor; }
};

template <class Real>
struct row_mean_op {
  std::size_t count, n;
  Real* rows;
  CORDEE_DEVICE void operator()(std::size_t i) const {
    Real sum = rows[i];
    for (std::size_t k = 1; k < count; ++k) sum += rows[k * n + i];
    rows[i] = sum / static_cast<Real>(count);
  }
};

template <class Real>
struct mix_neighbors_op {
  static constexpr std::size_t max_neighbors = 64;  // the weights are kernel parameters
  std::size_t n, count;
  const Real* received;
  Real* x;
  std::array<Real, max_neighbors> weights;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    const Real own = x[i];
    Real change = 0;
    for (std::size_t k = 0; k < count; ++k) change += weights[k] * (received[k * n + i] - own);
    x[i] = own + change;
  }
};

/// x <- x / divisor
template <class Real, GpuStream S>
void divide(std::size_t n, Real divisor, Real* x, S s) {
  for_each(s, n, divide_op<Real>{x, divisor});
}

/// y <- (y + x) / divisor
template <class Real, GpuStream S>
void add_then_divide(std::size_t n, Real divisor, const Real* x, Real* y, S s) {
  for_each(s, n, add_then_divide_op<Real>{x, y, divisor});
}

/// rows is (count, n): its first row <- the mean of all rows, added in order.
template <class Real, GpuStream S>
void mean_of_rows(std::size_t count, std::size_t n, Real* rows, S s) {
  for_each(s, n, row_mean_op<Real>{count, n, rows});
}

/// x <- x + sum over k of weights[k] (received[k] - x), with received (weights, n).
template <class Real, GpuStream S>
void mix_neighbors(std::size_t n, const Real* received, std::span<const double> weights, Real* x,
                   S s) {
  expects(weights.size() <= mix_neighbors_op<Real>::max_neighbors,
          "mix_neighbors: at most 64 neighbors per rank on a GPU");
  mix_neighbors_op<Real> mix{n, weights.size(), received, x, {}};
  std::transform(weights.begin(), weights.end(), mix.weights.begin(),
                 [](double w) { return static_cast<Real>(w); });
  for_each(s, n, mix);
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
