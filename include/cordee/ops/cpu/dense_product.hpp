// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Products of dense matrices, C = A B, for optimizers of whole matrices.
//
//   for each part of the depth       B in panels of two registers' columns, by all workers
//     for each block of rows         A in panels of the tile's rows, by the worker that takes it
//       for each panel, each tile    the sums of a tile stay in registers (Goto and van de Geijn)
//
// If the product is known to be symmetric, tiles above the diagonal are copied, not computed.
// The order of sums depends on the ISA, not on the workers.
#pragma once

#include <cstddef>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/owned_ptr.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/cpu/simd.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Element (i, j) is data[i * row + j * column].
template <class Real>
struct matrix_view {
  const Real* data = nullptr;
  std::size_t row = 0, column = 1;

  [[nodiscard]] matrix_view from(std::size_t i, std::size_t j) const {
    return {data + i * row + j * column, row, column};
  }
  [[nodiscard]] matrix_view transposed() const { return {data, column, row}; }
};

/// A product whose sums are in registers.
template <class Real>
struct product_tile {
  static constexpr int V = lanes<Real>;
  static constexpr std::size_t rows = register_count == 32 ? 12 : 6, columns = 2 * V;

  /// c, rows of which are `stride` apart, becomes a b, or c + a b.
  [[gnu::noinline]] static void run(std::size_t depth, const Real* a,  // (depth, rows)
                                    const Real* b,                     // (depth, columns)
                                    Real* c, std::size_t stride, bool adds) {
    vec<Real, V> sums[rows][2] = {};
    for (std::size_t k = 0; k < depth; ++k, a += rows, b += columns) {
      const auto first = load<Real, V>(b), second = load<Real, V>(b + V);
#pragma GCC unroll 12
      for (std::size_t i = 0; i < rows; ++i) {
        sums[i][0] += a[i] * first;
        sums[i][1] += a[i] * second;
      }
    }
#pragma GCC unroll 12
    for (std::size_t i = 0; i < rows; ++i, c += stride) {
      if (adds) sums[i][0] += load<Real, V>(c), sums[i][1] += load<Real, V>(c + V);
      store<Real, V>(c, sums[i][0]);
      store<Real, V>(c + V, sums[i][1]);
    }
  }
  /// The same of the tile's first numbers alone.
  static void run_part(std::size_t depth, const Real* a, const Real* b, Real* c, std::size_t stride,
                       bool adds, std::size_t some_rows, std::size_t some_columns) {
    if (some_rows == rows && some_columns == columns) return run(depth, a, b, c, stride, adds);
    Real sums[rows * columns];
    run(depth, a, b, sums, columns, false);
    for (std::size_t i = 0; i < some_rows; ++i)
      for (std::size_t j = 0; j < some_columns; ++j)
        c[i * stride + j] = sums[i * columns + j] + (adds ? c[i * stride + j] : Real{0});
  }
};

/// to (depth, width) <- the first `some` columns of x, zeros behind them.
template <std::size_t Width, class Real>
void pack_panel(matrix_view<Real> x, std::size_t depth, std::size_t some, Real* to) {
  if (some < Width) std::fill_n(to, depth * Width, Real{0});
  if (x.column == 1) {
    for (std::size_t k = 0; k < depth; ++k)
      if (some == Width)
        std::copy_n(x.data + k * x.row, Width, to + k * Width);
      else
        std::copy_n(x.data + k * x.row, some, to + k * Width);
    return;
  }
  for (std::size_t j = 0; j < some; ++j)
    for (std::size_t k = 0; k < depth; ++k) to[k * Width + j] = x.data[k * x.row + j * x.column];
}

/// The part above the diagonal from the one below it. Blocks are transposed in a buffer: rows that
/// are a power of two apart share few sets of a cache.
template <class Real>
void mirror(std::size_t n, Real* c, cpu::stream s) {  // (n, n)
  constexpr std::size_t side = 32;
  const std::size_t blocks = (n + side - 1) / side;
  device::parallel_dynamic(s, blocks, [=](std::size_t block) {
    const std::size_t first = block * side, last = std::min(n, first + side);
    Real rows[side * side];  // (columns of c, rows of c)
    for (std::size_t left = 0; left < first; left += side) {
      for (std::size_t i = first; i < last; ++i)
        for (std::size_t j = 0; j < side; ++j) rows[j * side + i - first] = c[i * n + left + j];
      for (std::size_t j = 0; j < side; ++j)
        std::copy_n(rows + j * side, last - first, c + (left + j) * n + first);
    }
    for (std::size_t i = first; i < last; ++i)
      for (std::size_t j = first; j < i; ++j) c[j * n + i] = c[i * n + j];
  });
}

/// c, (m, n), becomes the product of a, (m, depth), and b, (depth, n). `symmetric`: m is n, and the
/// product is known to be symmetric.
template <class Real>
void dense_product(std::size_t m, std::size_t n, std::size_t depth, matrix_view<Real> a,
                   matrix_view<Real> b, Real* c, bool symmetric, cpu::stream s) {
  using tile = product_tile<Real>;
  constexpr std::size_t part = 256;  // of the depth: a panel of B fits a level-1 cache
  constexpr std::size_t height = 10 * tile::rows;  // of a block: its part of A fits a level-2 cache
  const std::size_t panels = (n + tile::columns - 1) / tile::columns,
                    blocks = (m + height - 1) / height, most = std::min(part, depth);
  const auto packed_b = core::uninitialized<Real>(panels * most * tile::columns);
  for (std::size_t k = 0; k < depth; k += part) {
    const std::size_t size = std::min(part, depth - k);
    device::parallel_dynamic(s, panels, [&](std::size_t p) {
      const std::size_t j = p * tile::columns;
      pack_panel<tile::columns>(b.from(k, j), size, std::min(tile::columns, n - j),
                                packed_b.get() + p * size * tile::columns);
    });
    device::parallel_dynamic(s, blocks, [&](std::size_t block) {
      const std::size_t first = block * height, last = std::min(m, first + height);
      const auto packed_a = core::uninitialized<Real>(height * size);
      for (std::size_t i = first; i < last; i += tile::rows)
        pack_panel<tile::rows>(a.from(i, k).transposed(), size, std::min(tile::rows, last - i),
                               packed_a.get() + (i - first) * size);
      for (std::size_t j = 0; j < n; j += tile::columns)
        for (std::size_t i = first; i < last; i += tile::rows) {
          const std::size_t some = std::min(tile::rows, last - i);
          if (symmetric && j >= i + some) continue;
          tile::run_part(size, packed_a.get() + (i - first) * size, packed_b.get() + j * size,
                         c + i * n + j, n, k > 0, some, std::min(tile::columns, n - j));
        }
    });
  }
  if (symmetric) mirror(n, c, s);
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
