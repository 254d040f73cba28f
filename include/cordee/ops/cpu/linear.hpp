// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The fully connected layer: y = x W^T + b, dx = dy W, dW = dy^T x, db = sum of dy. Sums are
// made in wide<N>.
//
// x is the output of a pool: (samples, stride), the features first, then padding channels, which
// are zero.
#pragma once

#include <cstddef>

#include <cordee/core/min_max.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/linear_problem.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

template <class N>
[[gnu::noinline]] precision::wide<N> dot(std::size_t n, const N* x, const N* y) {
  using Real = precision::wide<N>;
  constexpr int W = lanes<Real>;
  vec<Real, W> partial{};  // the order of the sum depends on the ISA, not on the workers
  const std::size_t whole = n - n % W;
  for (std::size_t i = 0; i < whole; i += W) partial += load<N, W>(x + i) * load<N, W>(y + i);
  Real sum = 0;
  for (int w = 0; w < W; ++w) sum += partial[w];
  for (std::size_t i = whole; i < n; ++i)
    sum += precision::widened(x[i]) * precision::widened(y[i]);
  return sum;
}

/// y <- y + a x
template <class N>
[[gnu::noinline]] void axpy(std::size_t n, precision::wide<N> a, const N* x,
                            precision::wide<N>* y) {
  using Real = precision::wide<N>;
  constexpr int W = lanes<Real>;
  const std::size_t whole = n - n % W;
  for (std::size_t i = 0; i < whole; i += W)
    store<Real, W>(y + i, load<Real, W>(y + i) + a * load<N, W>(x + i));
  for (std::size_t i = whole; i < n; ++i) y[i] += a * precision::widened(x[i]);
}

template <class N>
void linear_forward(const linear_problem& p, int samples,
                    const N* x,                   // (samples, stride)
                    const N* w,                   // (outputs, features)
                    const precision::wide<N>* b,  // (outputs)
                    N* y,                         // (samples, outputs)
                    cpu::stream s) {
  device::parallel_chunks(
      s, static_cast<std::size_t>(samples), 1, [=](std::size_t first, std::size_t last) {
        for (std::size_t n = first; n < last; ++n)
          for (std::size_t k = 0; k < p.outputs; ++k)
            y[n * p.outputs + k] =
                precision::rounded<N>(b[k] + dot(p.features, x + n * p.stride, w + k * p.features));
      });
}

/// Overwrites dx, its padding with zeros.
template <class N>
void linear_input_gradient(const linear_problem& p, int samples,
                           const N* dy,  // (samples, outputs)
                           const N* w,   // (outputs, features)
                           N* dx,        // (samples, stride)
                           cpu::stream s) {
  device::parallel_chunks(
      s, static_cast<std::size_t>(samples), 1, [=](std::size_t first, std::size_t last) {
        constexpr std::size_t block = 512;  // of features, whose sums stay in the cache
        precision::wide<N> sums[block];
        std::fill(dx + first * p.stride, dx + last * p.stride, N{});
        for (std::size_t n = first; n < last; ++n)
          for (std::size_t f = 0; f < p.features; f += block) {
            const std::size_t size = std::min(block, p.features - f);
            std::fill_n(sums, size, precision::wide<N>{0});
            for (std::size_t k = 0; k < p.outputs; ++k)
              axpy(size, precision::widened(dy[n * p.outputs + k]), w + k * p.features + f, sums);
            for (std::size_t i = 0; i < size; ++i)
              dx[n * p.stride + f + i] = precision::rounded<N>(sums[i]);
          }
      });
}

/// The sums over the samples, in their order. A null dw or db is not written.
template <class N>
void linear_weight_gradient(const linear_problem& p, int samples,
                            const N* x,              // (samples, stride)
                            const N* dy,             // (samples, outputs)
                            precision::wide<N>* dw,  // (outputs, features), or null
                            precision::wide<N>* db,  // (outputs), or null
                            write_mode mode, cpu::stream s) {
  device::parallel_chunks(s, p.outputs, 1, [=](std::size_t first, std::size_t last) {
    const bool overwrites = mode == write_mode::overwrite;
    if (overwrites && dw != nullptr)
      std::fill(dw + first * p.features, dw + last * p.features, precision::wide<N>{0});
    if (overwrites && db != nullptr) std::fill(db + first, db + last, precision::wide<N>{0});
    for (std::size_t n = 0; n < static_cast<std::size_t>(samples); ++n)
      for (std::size_t k = first; k < last; ++k) {
        const precision::wide<N> g = precision::widened(dy[n * p.outputs + k]);
        if (dw != nullptr) axpy(p.features, g, x + n * p.stride, dw + k * p.features);
        if (db != nullptr) db[k] += g;
      }
  });
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
