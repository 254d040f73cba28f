// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The fully connected layer: y = x W^T + b, dx = dy W, dW = dy^T x, db = sum of dy.
//
// x is the output of a pool: (samples, stride), the features first, then padding channels, which
// are zero.
#pragma once

#include <algorithm>
#include <cstddef>

#include <cordee/core/training_step.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/linear_problem.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

template <class Real>
[[gnu::noinline]] Real dot(std::size_t n, const Real* x, const Real* y) {
  constexpr int W = lanes<Real>;
  vec<Real, W> partial{};  // the order of the sum depends on the ISA, not on the workers
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

template <class Real>
void linear_forward(const linear_problem& p, int samples,
                    const Real* x,  // (samples, stride)
                    const Real* w,  // (outputs, features)
                    const Real* b,  // (outputs)
                    Real* y,        // (samples, outputs)
                    cpu::stream s) {
  parallel_chunks(
      s, static_cast<std::size_t>(samples), 1, [=](std::size_t first, std::size_t last) {
        for (std::size_t n = first; n < last; ++n)
          for (std::size_t k = 0; k < p.outputs; ++k)
            y[n * p.outputs + k] = b[k] + dot(p.features, x + n * p.stride, w + k * p.features);
      });
}

/// Overwrites dx, its padding with zeros.
template <class Real>
void linear_input_gradient(const linear_problem& p, int samples,
                           const Real* dy,  // (samples, outputs)
                           const Real* w,   // (outputs, features)
                           Real* dx,        // (samples, stride)
                           cpu::stream s) {
  parallel_chunks(
      s, static_cast<std::size_t>(samples), 1, [=](std::size_t first, std::size_t last) {
        std::fill(dx + first * p.stride, dx + last * p.stride, Real{0});
        for (std::size_t n = first; n < last; ++n)
          for (std::size_t k = 0; k < p.outputs; ++k)
            axpy(p.features, dy[n * p.outputs + k], w + k * p.features, dx + n * p.stride);
      });
}

/// The sums over the samples, in their order.
template <class Real>
void linear_weight_gradient(const linear_problem& p, int samples,
                            const Real* x,   // (samples, stride)
                            const Real* dy,  // (samples, outputs)
                            Real* dw,        // (outputs, features)
                            Real* db,        // (outputs)
                            write_mode mode, cpu::stream s) {
  parallel_chunks(s, p.outputs, 1, [=](std::size_t first, std::size_t last) {
    if (mode == write_mode::overwrite) {
      std::fill(dw + first * p.features, dw + last * p.features, Real{0});
      std::fill(db + first, db + last, Real{0});
    }
    for (std::size_t n = 0; n < static_cast<std::size_t>(samples); ++n)
      for (std::size_t k = first; k < last; ++k) {
        const Real g = dy[n * p.outputs + k];
        axpy(p.features, g, x + n * p.stride, dw + k * p.features);
        db[k] += g;
      }
  });
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
