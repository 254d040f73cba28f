// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Rounds the sums of one kernel of fprop or dgrad to y while the next kernel's products run: tiles
// are multiplied by a unit of their own, and the vector units are idle meanwhile. The sums wait in
// memory; each step of the next kernel rounds a few of their rows, and asks for the lines of y that
// its own will be written to.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cordee/core/algorithm.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/engines/amx/tiles/correlation_plan.hpp>
#include <cordee/ops/engines/direct/tiles/bfloat_dot.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// y = 16 sums, or y + sums, rounded.
[[gnu::always_inline]] inline void store_sixteen(const float* sums, bfloat* y, bool add) {
  constexpr int V = std::min(16, lanes<float>);
#pragma GCC unroll 4
  for (int v = 0; v < 16; v += V) {
    vec<float, V> sum = load<float, V>(sums + v);
    if (add) sum += load<bfloat, V>(y + v);
    store_bfloat_sums<V, bfloat_dots>(y + v, sum);
  }
}
/// y = 32 sums, which is a whole line of memory.
[[gnu::always_inline]] inline void store_line(const float* sums, bfloat* y) {
#if defined(__AVX512BF16__)
  if constexpr (bfloat_dots && lanes<float> == 16) {
    vec<std::uint16_t, 32> rounded;
    __asm__("vcvtne2ps2bf16 %1, %2, %0"
            : "=v"(rounded)
            : "v"(load<float, 16>(sums)), "v"(load<float, 16>(sums + 16)));
    store<std::uint16_t, 32>(&y->bits, rounded);
    return;
  }
#endif
  store_sixteen(sums, y, false);
  store_sixteen(sums + 16, y + 16, false);
}

/// y = 32 sums, and zeros in the rest of cell x cell pixels.
inline void store_cell(const float* sums, bfloat* y, int cell, std::ptrdiff_t row) {
  for (int i = 0; i < cell; ++i, y += row)
    for (int j = 0; j < cell; ++j) {
      if (i + j == 0)
        store_line(sums, y);
      else
        std::fill_n(y + std::ptrdiff_t{j} * tile_channels, tile_channels, bfloat{});
    }
}

/// The rows of sums of a kernel, (rows, 16) or (rows, 32), and where they go.
struct kernel_rows {
  const std::ptrdiff_t* targets = nullptr;  // of each row from y; -1: none
  int rows = 0;
  bfloat* y = nullptr;
  std::ptrdiff_t second = 0;  // from the first 16 of a row to the others; 0: there are none
  bool add = false;
  int cell = 1;            // y has zeros in the rest of cell x cell pixels from each target on,
  std::ptrdiff_t row = 0;  // numbers from row to row of pixels, which are lines
};

class deferred_sums {
 public:
  static constexpr std::size_t size = 64 * std::size_t{tile_filters};  ///< Of one kernel's sums.

  explicit deferred_sums(float* memory) : memory_(memory) {}  ///< `size` numbers.
  deferred_sums(const deferred_sums&) = delete;
  deferred_sums& operator=(const deferred_sums&) = delete;

  /// Where a kernel stores its sums, once no row is left.
  [[nodiscard]] float* memory() const { return memory_; }
  /// Rows that are not in y yet.
  [[nodiscard]] int left() const { return of_.rows - row_; }
  /// What the kernel that runs now will hand to `add`.
  void expect(const kernel_rows& rows) { expected_ = rows.rows < of_.rows ? &of_ : &rows; }

  /// Rounds the next rows, at most `count`.
  [[gnu::always_inline]] void run(int count) {
    count = std::min(count, left());
    if (count <= 0) return;
    if (of_.add)
      run_rows(
          count, [this](const float* sums, bfloat* y) __attribute__((always_inline)) {
            store_sixteen(sums, y, true);
            if (of_.second != 0) store_sixteen(sums + tile_filters, y + of_.second, true);
          });
    else if (of_.cell > 1)
      run_rows(
          count, [this](const float* sums, bfloat* y)
                     __attribute__((always_inline)) { store_cell(sums, y, of_.cell, of_.row); });
    else if (of_.second == tile_filters)
      run_rows(
          count,
          [](const float* sums, bfloat* y) __attribute__((always_inline)) { store_line(sums, y); });
    else
      run_rows(
          count, [second = of_.second](const float* sums, bfloat* y)
                     __attribute__((always_inline)) {
                       store_sixteen(sums, y, false);
                       if (second != 0) store_sixteen(sums + tile_filters, y + second, false);
                     });
  }
  void finish() { run(left()); }
  /// What is in memory() now. Requires that no row was left.
  void add(const kernel_rows& rows) {
    sums_ = memory_;
    of_ = rows;
    row_ = 0;
    expected_ = &of_;
  }
  /// Rounds the first `filters` of each row's 16 now: y has fewer in a pixel.
  void take(int filters) {
    for (; row_ < of_.rows; ++row_, sums_ += tile_filters) {
      if (of_.targets[row_] < 0) continue;
      bfloat* const y = of_.y + of_.targets[row_];
      for (int k = 0; k < filters; ++k)
        y[k] = bfloat::nearest((of_.add ? y[k].exact() : 0.0f) + sums_[k]);
    }
  }

 private:
  template <class Store>
  [[gnu::always_inline]] void run_rows(int count, const Store& store_row) {
    const std::ptrdiff_t *target = of_.targets + row_, *expected = expected_->targets + row_;
    bfloat *const y = of_.y, *const next = expected_->y;
    const float* sums = sums_;
    const std::ptrdiff_t width = of_.second != 0 ? 2 * tile_filters : tile_filters;
    row_ += count;
    sums_ = sums + count * width;
#pragma GCC unroll 1
    for (; count > 0; --count, ++target, ++expected, sums += width) {
      __builtin_prefetch(next + *expected, 1);
      if (*target >= 0) store_row(sums, y + *target);
    }
  }

  float* memory_;
  const float* sums_ = nullptr;
  kernel_rows of_;
  const kernel_rows* expected_ = &of_;
  int row_ = 0;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
