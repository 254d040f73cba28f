// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The fully connected layer on grids: all three of ops/linear.hpp's products by one body.
//
//   C[i, j] = sum over k of A[i, k] B[k, j],  k ascending, in what N is computed in
//
// A block makes a square of C, through squares of A and B in shared memory. The bias is the weight
// of a feature that is always one.
#pragma once

#include <cordee/device/grid.hpp>
#include <cordee/ops/linear.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// Element (i, j) lies at i * row + j * column, one of which is 1. Beyond the size all are zero,
/// but for the column behind the last one where that is `behind`.
template <Number N>
struct matrix {
  const N* data;
  std::size_t rows, columns, row, column;
  int behind = 0;

  [[nodiscard]] CORDEE_DEVICE wide<N> at(std::size_t i, std::size_t j) const {
    if (i < rows && j < columns) return widened(data[i * row + j * column]);
    return static_cast<wide<N>>(j == columns ? behind : 0);
  }
};

/// put(i, j, C[i, j]) for the rows and columns of C.
template <Number N, class Put>
struct product_body {
  static constexpr int threads = 256;
  static constexpr int side = 32, line = side + 1;  // so that a column lies in all banks
  static constexpr int rows_a_thread = side * side / threads;

  matrix<N> a, b;
  std::size_t rows, columns;
  Put put;

  [[nodiscard]] constexpr std::size_t shared_bytes() const {
    return 2 * side * line * sizeof(wide<N>);
  }

  template <class Block>
  CORDEE_DEVICE void operator()(Block& block) const {
    wide<N>* const of_a = block.template shared<wide<N>>(side * line);
    wide<N>* const of_b = block.template shared<wide<N>>(side * line);
    const int t = block.thread(), column = t % side, row = t / side * rows_a_thread;
    const std::size_t across = blocks_for(columns, side);
    const std::size_t i0 = block.index() / across * side, j0 = block.index() % across * side;
    wide<N> sum[rows_a_thread] = {};
    for (std::size_t k0 = 0; k0 < a.columns; k0 += side) {
      fetch(a, i0, k0, t, of_a);
      fetch(b, k0, j0, t, of_b);
      block.sync();
      for (int k = 0; k < side; ++k)
        for (int r = 0; r < rows_a_thread; ++r)
          sum[r] += of_a[(row + r) * line + k] * of_b[k * line + column];
      block.sync();
    }
    const std::size_t i = i0 + static_cast<std::size_t>(row),
                      j = j0 + static_cast<std::size_t>(column);
    for (int r = 0; r < rows_a_thread; ++r)
      if (i + static_cast<std::size_t>(r) < rows && j < columns)
        put(i + static_cast<std::size_t>(r), j, sum[r]);
  }

 private:
  /// The square of m that begins at (i0, j0): neighbouring threads read neighbouring numbers.
  CORDEE_DEVICE static void fetch(const matrix<N>& m, std::size_t i0, std::size_t j0, int t,
                                  wide<N>* to) {
    for (int at = t; at < side * side; at += threads) {
      const int slow = at / side, quick = at % side;
      const int i = m.column == 1 ? slow : quick, j = m.column == 1 ? quick : slow;
      to[i * line + j] = m.at(i0 + static_cast<std::size_t>(i), j0 + static_cast<std::size_t>(j));
    }
  }
};

template <Number N, class Put, GridStream S>
void multiply(const matrix<N>& a, const matrix<N>& b, std::size_t rows, std::size_t columns,
              const Put& put, S s) {
  using body = product_body<N, Put>;
  s.launch(blocks_for(rows, body::side) * blocks_for(columns, body::side),
           body{a, b, rows, columns, put});
}

template <Number N, std::floating_point Real>
struct put_output {
  const Real* bias;
  N* y;
  std::size_t outputs;
  CORDEE_DEVICE void operator()(std::size_t n, std::size_t k, wide<N> sum) const {
    y[n * outputs + k] = rounded<N>(static_cast<wide<N>>(bias[k]) + sum);
  }
};
template <Number N>
struct put_input_gradient {
  N* dx;
  std::size_t stride;
  CORDEE_DEVICE void operator()(std::size_t n, std::size_t c, wide<N> sum) const {
    dx[n * stride + c] = rounded<N>(sum);
  }
};
template <Number N, std::floating_point Real>
struct put_weight_gradient {
  Real* dw;
  Real* db;
  std::size_t features;
  into how;
  CORDEE_DEVICE void operator()(std::size_t k, std::size_t c, wide<N> sum) const {
    Real& to = c < features ? dw[k * features + c] : db[k];
    to = static_cast<Real>(sum) + (how == into::add ? to : 0);
  }
};

}  // namespace detail

template <Number N, std::floating_point Real, GridStream S>
void linear_forward(const linear_problem& at, int samples, const N* x, const N* w, const Real* b,
                    N* y, S s) {
  const auto n = static_cast<std::size_t>(samples);
  detail::multiply<N>({x, n, at.features, at.stride, 1},
                      {w, at.features, at.outputs, 1, at.features}, n, at.outputs,
                      detail::put_output<N, Real>{b, y, at.outputs}, s);
}

/// The input gradient; dx is overwritten, its padding with zeros.
template <Number N, GridStream S>
void linear_input_gradient(const linear_problem& at, int samples, const N* dy, const N* w, N* dx,
                           S s) {
  const auto n = static_cast<std::size_t>(samples);
  detail::multiply<N>({dy, n, at.outputs, at.outputs, 1},
                      {w, at.outputs, at.features, at.features, 1}, n, at.stride,
                      detail::put_input_gradient<N>{dx, at.stride}, s);
}

/// dw (outputs, features) and db (outputs): sums over the samples, in their order.
template <Number N, std::floating_point Real, GridStream S>
void linear_weight_gradient(const linear_problem& at, int samples, const N* x, const N* dy,
                            Real* dw, Real* db, into how, S s) {
  const auto n = static_cast<std::size_t>(samples);
  detail::multiply<N>({dy, at.outputs, n, 1, at.outputs}, {x, n, at.features, at.stride, 1, 1},
                      at.outputs, at.features + 1,
                      detail::put_weight_gradient<N, Real>{dw, db, at.features, how}, s);
}

}  // namespace cordee::inline CORDEE_ABI
