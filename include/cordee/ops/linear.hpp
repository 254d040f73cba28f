// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The fully connected layer: y = x W^T + b, dx = dy W, dW = dy^T x, db = sum of dy.
//
// W is canonical, (outputs, features). x is what a pool left: (samples, stride), features first and
// padding channels, which are zero, after them.
#pragma once

#include <algorithm>
#include <cstddef>

#include <cordee/core/protocol.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/simd.hpp>

namespace cordee::inline CORDEE_ABI {

struct linear_problem {
  std::size_t features = 0, outputs = 0;
  std::size_t stride = 0;  // numbers from one sample of x to the next, at least `features`
};

namespace detail {

template <class Real>
[[gnu::noinline]] Real dot(std::size_t n, const Real* x, const Real* y) {
  constexpr int W = lanes<Real>;
  vec<Real, W> partial{};  // the order of the sum is the ISA's, never the number of workers'
  const std::size_t whole = n - n % W;
  for (std::size_t i = 0; i < whole; i += W) partial += load<Real, W>(x + i) * load<Real, W>(y + i);
  Real sum = 0;
  for (int w = 0; w < W; ++w) sum += partial[w];
  for (std::size_t i = whole; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

/// y <- y + a x
template <class Real>
[[gnu::noinline]] void axpy(std::size_t n, Real a, const Real* x, Real* y) {
  constexpr int W = lanes<Real>;
  const std::size_t whole = n - n % W;
  for (std::size_t i = 0; i < whole; i += W)
    store<Real, W>(y + i, load<Real, W>(y + i) + a * load<Real, W>(x + i));
  for (std::size_t i = whole; i < n; ++i) y[i] += a * x[i];
}

}  // namespace detail

template <class Real>
void linear_forward(const linear_problem& at, int samples, const Real* x, const Real* w,
                    const Real* b, Real* y, cpu::stream s) {
  parallel(s, static_cast<std::size_t>(samples), 1, [=](std::size_t first, std::size_t last) {
    for (std::size_t n = first; n < last; ++n)
      for (std::size_t k = 0; k < at.outputs; ++k)
        y[n * at.outputs + k] =
            b[k] + detail::dot(at.features, x + n * at.stride, w + k * at.features);
  });
}

/// The input gradient; dx is overwritten, its padding with zeros.
template <class Real>
void linear_input_gradient(const linear_problem& at, int samples, const Real* dy, const Real* w,
                           Real* dx, cpu::stream s) {
  parallel(s, static_cast<std::size_t>(samples), 1, [=](std::size_t first, std::size_t last) {
    std::fill(dx + first * at.stride, dx + last * at.stride, Real{0});
    for (std::size_t n = first; n < last; ++n)
      for (std::size_t k = 0; k < at.outputs; ++k)
        detail::axpy(at.features, dy[n * at.outputs + k], w + k * at.features, dx + n * at.stride);
  });
}

/// dw (outputs, features) and db (outputs): sums over the samples, in their order.
template <class Real>
void linear_weight_gradient(const linear_problem& at, int samples, const Real* x, const Real* dy,
                            Real* dw, Real* db, into mode, cpu::stream s) {
  parallel(s, at.outputs, 1, [=](std::size_t first, std::size_t last) {
    if (mode == into::overwrite) {
      std::fill(dw + first * at.features, dw + last * at.features, Real{0});
      std::fill(db + first, db + last, Real{0});
    }
    for (std::size_t n = 0; n < static_cast<std::size_t>(samples); ++n)
      for (std::size_t k = first; k < last; ++k) {
        const Real g = dy[n * at.outputs + k];
        detail::axpy(at.features, g, x + n * at.stride, dw + k * at.features);
        db[k] += g;
      }
  });
}

}  // namespace cordee::inline CORDEE_ABI
