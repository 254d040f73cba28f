// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// GPU overloads of the fully connected layer (ops/cpu/linear.hpp): its three products by one
// kernel,
//
//   C[i, j] = sum over k of A[i, k] B[k, j],    k ascending, in wide<N>
//
// A block computes a square tile of C from tiles of A and B in shared memory. The bias gradient is
// the weight gradient of a feature that is always 1.
//
// In 16 bits layers use convolutions for the products (nn/linear.hpp), and of this file what is
// beside them: the bias and its gradient.
#pragma once

#include <cordee/core/error.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/fast_divisor.hpp>
#include <cordee/ops/linear_problem.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Element (i, j) lies at i row_stride + j column_stride; one of the strides is 1. Elements outside
/// are 0, but `bias_column` in the column behind the last.
template <Number N>
struct strided_matrix {
  const N* data;
  std::size_t rows, columns, row_stride, column_stride;
  int bias_column = 0;

  [[nodiscard]] CORDEE_DEVICE precision::wide<N> at(std::size_t i, std::size_t j) const {
    if (i < rows && j < columns)
      return precision::widened(data[i * row_stride + j * column_stride]);
    return static_cast<precision::wide<N>>(j == columns ? bias_column : 0);
  }
};

/// Calls store(i, j, C[i, j]) for every element of C.
template <Number N, class Store>
struct matmul_kernel {
  static constexpr int threads = 256;
  static constexpr int tile = 32, pitch = tile + 1;  // a column lies in all banks
  static constexpr int rows_per_thread = tile * tile / threads;

  strided_matrix<N> a, b;
  std::size_t rows, columns;
  Store store;

  [[nodiscard]] constexpr std::size_t shared_bytes() const {
    return 2 * tile * pitch * sizeof(precision::wide<N>);
  }

  template <class Block>
  CORDEE_DEVICE void operator()(Block& block) const {
    precision::wide<N>* const a_tile = block.template shared<precision::wide<N>>(tile * pitch);
    precision::wide<N>* const b_tile = block.template shared<precision::wide<N>>(tile * pitch);
    const int t = block.thread(), column = t % tile, row = t / tile * rows_per_thread;
    const std::size_t across = device::blocks_for(columns, tile);
    const std::size_t i0 = block.index() / across * tile, j0 = block.index() % across * tile;
    precision::wide<N> sum[rows_per_thread] = {};
    for (std::size_t k0 = 0; k0 < a.columns; k0 += tile) {
      fetch(a, i0, k0, t, a_tile);
      fetch(b, k0, j0, t, b_tile);
      block.sync();
      for (int k = 0; k < tile; ++k)
        for (int r = 0; r < rows_per_thread; ++r)
          sum[r] += a_tile[(row + r) * pitch + k] * b_tile[k * pitch + column];
      block.sync();
    }
    const std::size_t i = i0 + static_cast<std::size_t>(row),
                      j = j0 + static_cast<std::size_t>(column);
    for (int r = 0; r < rows_per_thread; ++r)
      if (i + static_cast<std::size_t>(r) < rows && j < columns)
        store(i + static_cast<std::size_t>(r), j, sum[r]);
  }

 private:
  /// Loads the tile of m at (i0, j0); adjacent threads read adjacent numbers.
  CORDEE_DEVICE static void fetch(const strided_matrix<N>& m, std::size_t i0, std::size_t j0, int t,
                                  precision::wide<N>* to) {
    for (int index = t; index < tile * tile; index += threads) {
      const int slow = index / tile, fast = index % tile;
      const int i = m.column_stride == 1 ? slow : fast, j = m.column_stride == 1 ? fast : slow;
      to[i * pitch + j] = m.at(i0 + static_cast<std::size_t>(i), j0 + static_cast<std::size_t>(j));
    }
  }
};

template <Number N, class Store, GpuStream S>
void launch_matmul(const strided_matrix<N>& a, const strided_matrix<N>& b, std::size_t rows,
                   std::size_t columns, const Store& store, S s) {
  using kernel = matmul_kernel<N, Store>;
  s.launch_kernel(
      device::blocks_for(rows, kernel::tile) * device::blocks_for(columns, kernel::tile),
      kernel{a, b, rows, columns, store});
}

template <Number N, std::floating_point Real>
struct store_output_op {
  const Real* bias;
  N* y;
  std::size_t outputs;
  CORDEE_DEVICE void operator()(std::size_t n, std::size_t k, precision::wide<N> sum) const {
    y[n * outputs + k] = precision::rounded<N>(static_cast<precision::wide<N>>(bias[k]) + sum);
  }
};
template <Number N>
struct store_input_gradient_op {
  N* dx;
  std::size_t stride;
  CORDEE_DEVICE void operator()(std::size_t n, std::size_t c, precision::wide<N> sum) const {
    dx[n * stride + c] = precision::rounded<N>(sum);
  }
};
template <Number N, std::floating_point Real>
struct store_weight_gradient_op {
  Real* dw;
  Real* db;
  std::size_t features;
  write_mode mode;
  CORDEE_DEVICE void operator()(std::size_t k, std::size_t c, precision::wide<N> sum) const {
    Real& out = c < features ? dw[k * features + c] : db[k];
    out = static_cast<Real>(sum) + (mode == write_mode::add ? out : 0);
  }
};

template <Number N, std::floating_point Real, GpuStream S>
void linear_forward(const linear_problem& p, int samples, const N* x, const N* w, const Real* b,
                    N* y, S s) {
  const auto n = static_cast<std::size_t>(samples);
  launch_matmul<N>({x, n, p.features, p.stride, 1}, {w, p.features, p.outputs, 1, p.features}, n,
                   p.outputs, store_output_op<N, Real>{b, y, p.outputs}, s);
}

/// The input gradient; dx is overwritten, its padding with zeros.
template <Number N, GpuStream S>
void linear_input_gradient(const linear_problem& p, int samples, const N* dy, const N* w, N* dx,
                           S s) {
  const auto n = static_cast<std::size_t>(samples);
  launch_matmul<N>({dy, n, p.outputs, p.outputs, 1}, {w, p.outputs, p.features, p.features, 1}, n,
                   p.stride, store_input_gradient_op<N>{dx, p.stride}, s);
}

/// dw (outputs, features) and db (outputs): sums over the samples, ascending. A null one is not
/// written.
template <Number N, std::floating_point Real, GpuStream S>
void linear_weight_gradient(const linear_problem& p, int samples, const N* x, const N* dy, Real* dw,
                            Real* db, write_mode mode, S s) {
  const auto n = static_cast<std::size_t>(samples);
  const std::size_t features = dw == nullptr ? 0 : p.features;
  launch_matmul<N>({dy, p.outputs, n, 1, p.outputs}, {x, n, features, p.stride, 1, 1}, p.outputs,
                   features + (db == nullptr ? 0 : 1),
                   store_weight_gradient_op<N, Real>{dw, db, features, mode}, s);
}
/// Same, for the bias gradient alone.
template <Number N, std::floating_point Real, GpuStream S>
void linear_bias_gradient(std::size_t outputs, int samples, const N* dy, Real* db, write_mode mode,
                          S s) {
  const N* const no_features = nullptr;
  Real* const no_weights = nullptr;
  linear_weight_gradient({0, outputs, 0}, samples, no_features, dy, no_weights, db, mode, s);
}

/// Number i of y.
template <Number N, std::floating_point Real>
struct add_bias_op {
  fast_divisor by_outputs;
  int columns;  // of x
  const N* x;
  const Real* bias;
  N* y;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    using wide = precision::wide<N>;
    const int row = by_outputs.quotient(static_cast<int>(i)),
              column = static_cast<int>(i) - row * by_outputs.divisor;
    wide sum = 0;
    if (column < columns)
      sum = precision::widened(x[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) +
                                 static_cast<std::size_t>(column)]);
    if (bias != nullptr) sum += static_cast<wide>(bias[column]);
    y[i] = precision::rounded<N>(sum);
  }
};

/// y (samples, outputs) <- x (samples, columns) + bias (outputs): of more columns than outputs the
/// rest is left out, of fewer columns the rest is 0; a null bias is 0.
template <Number N, std::floating_point Real, GpuStream S>
void add_bias(int samples, const N* x, std::size_t columns, const Real* bias, N* y,
              std::size_t outputs, S s) {
  const std::size_t numbers = static_cast<std::size_t>(samples) * outputs;
  expects(numbers < 0x80000000u, "linear: a batch has fewer than 2^31 logits");
  for_each(s, numbers,
           add_bias_op<N, Real>{fast_divisor(static_cast<int>(outputs)), static_cast<int>(columns),
                                x, bias, y});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
