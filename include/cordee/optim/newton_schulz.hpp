// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The nearest semi-orthogonal matrix, about: Newton-Schulz steps of fifth order whose coefficients
// make small singular values grow fastest (Jordan et al. 2024).
//
//   X <- X / max(|X|, epsilon)                       the Frobenius norm
//   steps times:  S = X X^T,  P = a I + b S + c S^2,  X <- P X
//
// All P are polynomials of the first S, so they commute, and X is needed at the end alone:
//
//   steps times:  P = a I + b S + c S^2,  Q <- P Q,  S <- P (P S)
//   X <- Q X
//
// Of X (m, n), m <= n, that is 3 m^2 n + 17 m^3 operations for five steps in place of
// 15 m^2 n + 5 m^3, since all products but the last are symmetric: equal where m = n, 3.2 times
// fewer where n = 9 m. Rounding errors of S grow by a^2 with each step, so S is computed anew after
// five: by then a float's are below 1e-3 of X, where they act on singular values below 3e-4 alone.
#pragma once

#include <cstddef>
#include <utility>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/owned_ptr.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/cpu/dense_product.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/ops/cpu/simd_for_each.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI::detail::optim {

/// The Frobenius norm, infinite where its square is no double.
template <class Real>
double frobenius_norm(const Real* x, std::size_t n) {
  ops::dot_product squares;
  squares.add(x, x, n);
  return core::sqrt(squares.total());
}
/// x <- x / max(|x|, epsilon), of numbers of any size.
template <class Real>
void normalize(Real* x, std::size_t n, double epsilon) {
  double norm = frobenius_norm(x, n);
  if (!(norm > 1e-30 && norm < 1e30)) {  // its square or inverse may be out of range
    Real largest = 0;
    for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, core::abs(x[i]));
    if (largest == 0) return;
    for (std::size_t i = 0; i < n; ++i) x[i] /= largest;
    norm = frobenius_norm(x, n);
    epsilon /= static_cast<double>(largest);
  }
  const auto scale = factor<Real>(1 / std::max(norm, epsilon));
  ops::simd_for_each<Real>(0, n, [=](auto at) { at.put(x, scale * at(x)); });
}

/// Coefficients of one iteration, and the number of iterations that share one S.
struct newton_schulz_coefficients {
  static constexpr int most = 5;
  static constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
};

/// Replaces matrices by their Newton-Schulz iterates; keeps its memory from one to the next.
template <class Real>
class newton_schulz : newton_schulz_coefficients {
 public:
  newton_schulz(int steps, double epsilon) : steps_(steps), epsilon_(epsilon) {}

  /// Multiplications and additions of one matrix, about.
  static double cost(std::size_t rows, std::size_t columns) {
    const auto m = static_cast<double>(std::min(rows, columns)),
               n = static_cast<double>(std::max(rows, columns));
    return 3 * m * m * n + 17 * m * m * m;
  }

  /// x, (rows, columns).
  void operator()(Real* x, std::size_t rows, std::size_t columns, cpu::stream s) {
    const std::size_t m = std::min(rows, columns), n = std::max(rows, columns);
    normalize(x, m * n, epsilon_);
    for (auto* one : {&s_, &square_, &p_, &q_, &next_}) one->reserve(m * m);
    x_.reserve(m * n);
    for (int left = steps_; left > 0; left -= most) {
      const ops::matrix_view<Real> given{x, columns, 1},
          wide = rows <= columns ? given : given.transposed();
      ops::dense_product(m, m, n, wide, wide.transposed(), s_.get(), true, s);
      iterate(m, std::min(left, most), s);
      const ops::matrix_view<Real> q{q_.get(), m, 1};
      if (rows <= columns)
        ops::dense_product(m, n, m, q.transposed(), given, x_.get(), false, s);
      else
        ops::dense_product(rows, m, m, given, q, x_.get(), false, s);
      std::copy_n(x_.get(), m * n, x);
    }
  }

 private:
  class matrix {
   public:
    [[nodiscard]] Real* get() { return data_.get(); }
    void reserve(std::size_t n) {
      if (n <= size_) return;
      data_ = core::uninitialized<Real>(n);
      size_ = n;
    }

   private:
    core::owned_ptr<Real, core::deletes_array> data_;
    std::size_t size_ = 0;
  };

  // q_ <- the product of the steps' P, from s_
  void iterate(std::size_t m, int steps, cpu::stream s) {
    for (int k = 0; k < steps; ++k) {
      multiply(m, s_, s_, square_, s);
      Real* const p = k == 0 ? q_.get() : p_.get();
      ops::simd_for_each<Real>(0, m * m, [p, gram = s_.get(), square = square_.get()](auto at) {
        at.put(p, static_cast<Real>(b) * at(gram) + static_cast<Real>(c) * at(square));
      });
      for (std::size_t i = 0; i < m; ++i) p[i * m + i] += static_cast<Real>(a);
      if (k > 0) {
        multiply(m, p_, q_, next_, s);
        std::swap(q_, next_);
      }
      if (k + 1 == steps) return;
      matrix& factor = k == 0 ? q_ : p_;
      multiply(m, factor, s_, square_, s);
      multiply(m, factor, square_, s_, s);
    }
  }
  // to <- x y of symmetric matrices that commute
  static void multiply(std::size_t m, matrix& x, matrix& y, matrix& to, cpu::stream s) {
    ops::dense_product<Real>(m, m, m, {x.get(), 1, m}, {y.get(), m, 1}, to.get(), true, s);
  }

  int steps_;
  double epsilon_;
  matrix s_, square_, p_, q_, next_, x_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::optim
