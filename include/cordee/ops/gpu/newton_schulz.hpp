// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Newton-Schulz iterates of a matrix on a GPU: the formulas of optim/newton_schulz.hpp, by the
// products of ops/gpu/linear.hpp. All launches are on one stream, and the norm stays in the
// device's memory, so that the host waits for nothing.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/linear.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// C (rows, columns) <- the product
template <class Real>
struct store_product_op {
  Real* c;
  std::size_t columns;
  CORDEE_DEVICE void operator()(std::size_t i, std::size_t j, Real sum) const {
    c[i * columns + j] = sum;
  }
};
/// P <- a I + b S + c S S of a matrix S (m, m)
template <class Real>
struct store_polynomial_op {
  const Real* s;
  Real* p;
  std::size_t m;
  Real a, b, c;
  CORDEE_DEVICE void operator()(std::size_t i, std::size_t j, Real sum) const {
    p[i * m + j] = b * s[i * m + j] + c * sum + (i == j ? a : Real{0});
  }
};
/// x <- x / max(|x|, epsilon)
template <class Real>
struct normalize_op {
  Real* x;
  const double* square;
  double epsilon;
  CORDEE_DEVICE void operator()(std::size_t i) const {
    const double norm = std::sqrt(*square);
    x[i] = static_cast<Real>(static_cast<double>(x[i]) / (norm > epsilon ? norm : epsilon));
  }
};

/// x (rows, columns) <- its iterate after `steps` steps of the coefficients a, b, c, of which
/// `most` go by one S = X X^T; `square` is |x|^2.
template <class Real, class Coefficients, GpuStream S>
void newton_schulz_iterate(Real* x, std::size_t rows, std::size_t columns, int steps,
                           double epsilon, const Coefficients& of, const double* square, S s) {
  const std::size_t m = std::min(rows, columns), n = std::max(rows, columns);
  const device::stream_buffer<Real, S> memory(s, 5 * m * m + m * n);
  Real *const gram = memory.data(), *const other = gram + m * m, *const p = other + m * m;
  Real *q = p + m * m, *next = q + m * m;
  Real* const product = p + 3 * m * m;
  // to <- left right, (m, m)
  const auto multiply = [&](const Real* left, const Real* right, Real* to) {
    launch_matmul<Real>({left, m, m, m, 1}, {right, m, m, m, 1}, m, m,
                        store_product_op<Real>{to, m}, s);
  };
  for_each(s, m * n, normalize_op<Real>{x, square, epsilon});
  for (int left = steps; left > 0; left -= of.most) {
    if (rows <= columns)
      launch_matmul<Real>({x, m, n, n, 1}, {x, n, m, 1, n}, m, m, store_product_op<Real>{gram, m},
                          s);
    else
      launch_matmul<Real>({x, m, n, 1, m}, {x, n, m, m, 1}, m, m, store_product_op<Real>{gram, m},
                          s);
    for (int k = 0, last = std::min(left, of.most) - 1; k <= last; ++k) {
      Real* const factor = k == 0 ? q : p;
      launch_matmul<Real>(
          {gram, m, m, m, 1}, {gram, m, m, m, 1}, m, m,
          store_polynomial_op<Real>{gram, factor, m, static_cast<Real>(of.a),
                                    static_cast<Real>(of.b), static_cast<Real>(of.c)},
          s);
      if (k > 0) {
        multiply(p, q, next);
        std::swap(q, next);
      }
      if (k == last) break;
      multiply(k == 0 ? q : p, gram, other);
      multiply(k == 0 ? q : p, other, gram);
    }
    if (rows <= columns)
      launch_matmul<Real>({q, m, m, m, 1}, {x, m, n, n, 1}, m, n,
                          store_product_op<Real>{product, n}, s);
    else
      launch_matmul<Real>({x, n, m, m, 1}, {q, m, m, m, 1}, n, m,
                          store_product_op<Real>{product, m}, s);
    convert(m * n, product, x, s);
  }
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
