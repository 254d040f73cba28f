// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What reducers do with what they have heard, as grids (ops/elementwise.hpp); `add` is among
// ops/grid/elementwise.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include <cordee/core/error.hpp>
#include <cordee/device/grid.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

template <class Real>
struct divides {
  Real* x;
  Real by;
  CORDEE_DEVICE void operator()(std::size_t i) const { x[i] = x[i] / by; }
};

template <class Real>
struct divides_sum {
  const Real* x;
  Real* y;
  Real by;
  CORDEE_DEVICE void operator()(std::size_t i) const { y[i] = (y[i] + x[i]) / by; }
};

template <class Real>
struct row_mean {
  std::size_t count, n;
  Real* rows;
  CORDEE_DEVICE void operator()(std::size_t i) const {
    Real sum = rows[i];
    for (std::size_t k = 1; k < count; ++k) sum += rows[k * n + i];
    rows[i] = sum / static_cast<Real>(count);
  }
};

template <class Real>
struct approaches {
  static constexpr std::size_t most = 64;  // a kernel's parameters hold the weights
  std::size_t n, count;
  const Real* said;
  Real* x;
  std::array<Real, most> weights;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    const Real own = x[i];
    Real change = 0;
    for (std::size_t k = 0; k < count; ++k) change += weights[k] * (said[k * n + i] - own);
    x[i] = own + change;
  }
};

}  // namespace detail

/// x <- x / by
template <class Real, GridStream S>
void divide(std::size_t n, Real by, Real* x, S s) {
  for_each(s, n, detail::divides<Real>{x, by});
}

/// y <- (y + x) / by
template <class Real, GridStream S>
void divide_sum(std::size_t n, Real by, const Real* x, Real* y, S s) {
  for_each(s, n, detail::divides_sum<Real>{x, y, by});
}

/// rows is (count, n): its first one <- the mean of all, added in order.
template <class Real, GridStream S>
void mean_of_rows(std::size_t count, std::size_t n, Real* rows, S s) {
  for_each(s, n, detail::row_mean<Real>{count, n, rows});
}

/// x <- x + sum of weights[k] (said[k] - x), where said is (weights, n).
template <class Real, GridStream S>
void approach(std::size_t n, const Real* said, std::span<const double> weights, Real* x, S s) {
  expects(weights.size() <= detail::approaches<Real>::most,
          "approach: a rank hears at most 64 neighbours on this device");
  detail::approaches<Real> body{n, weights.size(), said, x, {}};
  std::transform(weights.begin(), weights.end(), body.weights.begin(),
                 [](double w) { return static_cast<Real>(w); });
  for_each(s, n, body);
}

}  // namespace cordee::inline CORDEE_ABI
