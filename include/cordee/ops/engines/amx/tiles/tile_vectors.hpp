// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Tiles in memory and their products by the processor's vectors, with the bits of AMX: what engine
// `amx` computes with where the system refuses AMX to the process.
//
// A product of bf16 is 512 fused multiply-adds of 16 sums in fp32. Pairs of bf16 (vdpbf16ps) would
// be half as many instructions, but round otherwise, and on Intel's processors take as long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/engines/amx/tiles/tile_unit.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// sum + a b, rounded once.
template <int V>
[[gnu::always_inline]] inline vec<float, V> fused(vec<float, V> sum, const float& a,
                                                  vec<float, V> b) {
#if defined(__AVX512F__)
  if constexpr (V == 16) {
    asm("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(b), "m"(a));
    return sum;
  }
#endif
  for (int v = 0; v < V; ++v) sum[v] = __builtin_fmaf(a, b[v], sum[v]);
  return sum;
}

/// Subnormal operands and results are zero while it lives, as in AMX's products.
class flush_subnormals {
 public:
#if defined(__SSE__)
  flush_subnormals() : before_(__builtin_ia32_stmxcsr()) {
    __builtin_ia32_ldmxcsr(before_ | 0x8040u);
  }
  flush_subnormals(const flush_subnormals&) = delete;
  flush_subnormals& operator=(const flush_subnormals&) = delete;
  ~flush_subnormals() { __builtin_ia32_ldmxcsr(before_); }

 private:
  unsigned before_;
#endif
};

/// See TileUnit.
class tile_vectors {
 public:
  explicit tile_vectors(const tile_shapes& shapes) : shapes_(shapes) {
    std::memset(tiles_, 0, sizeof tiles_);
  }
  tile_vectors(const tile_vectors&) = delete;
  tile_vectors& operator=(const tile_vectors&) = delete;

  template <int T>
  void zero() {
    std::memset(tiles_[T], 0, sizeof tiles_[T]);
    is_wide_[T] = false;
  }
  template <int T>
  void load(const void* from, std::ptrdiff_t pitch) {
    const auto* row = static_cast<const std::byte*>(from);
    const std::size_t size = shapes_.row_bytes[T];
    for (int r = 0; r < shapes_.rows[T]; ++r, row += pitch)
      if (size == tile_bytes)
        std::memcpy(tiles_[T] + r * tile_bytes, row, tile_bytes);  // of a known size
      else
        std::memcpy(tiles_[T] + r * tile_bytes, row, size);
    is_wide_[T] = false;
  }
  template <int T>
  void store(void* to, std::ptrdiff_t pitch) const {
    auto* row = static_cast<std::byte*>(to);
    for (int r = 0; r < shapes_.rows[T]; ++r, row += pitch)
      std::memcpy(row, tiles_[T] + r * tile_bytes, shapes_.row_bytes[T]);
  }
  template <int C, int A, int B>
  void add_bf16() {
    if (!is_wide_[A]) widen(A);
    [[maybe_unused]] const flush_subnormals flushed;
    multiply(tiles_[C], wide_[A], tiles_[B], shapes_.rows[C], shapes_.row_bytes[A] / 4);
  }
  template <int C, int A, int B>
  void add_bytes() {
    multiply_bytes(tiles_[C], tiles_[A], tiles_[B], shapes_.rows[C], shapes_.row_bytes[A] / 4);
  }

 private:
  static constexpr int V = lanes<float> < 16 ? lanes<float> : 16;
  static constexpr int rows_at_once = V == 16 ? 8 : 4;  // two registers of sums for each
  using floats = vec<float, V>;
  using words = vec<std::uint32_t, V>;

  void widen(int t) {
    for (int r = 0; r < shapes_.rows[t]; ++r)
      for (int i = 0; i < tile_bytes / 2; i += V)
        ops::store<float, V>(
            wide_[t] + r * (tile_bytes / 2) + i,
            ops::load<bfloat, V>(reinterpret_cast<const bfloat*>(tiles_[t] + r * tile_bytes) + i));
    is_wide_[t] = true;
  }
  static words load_words(const std::byte* from) {
    words w;
    std::memcpy(&w, from, sizeof w);
    return w;
  }
  /// Not inlined, so that no multiplication leaves the scope of flush_subnormals.
  [[gnu::noinline]] static void multiply(std::byte* c, const float* a, const std::byte* b, int rows,
                                         int steps) {
    for (int m = 0; m < rows; m += rows_at_once)
      for (int n = 0; n < tile_bytes; n += 4 * V) {
        floats even[std::size_t{rows_at_once}] = {}, odd[std::size_t{rows_at_once}] = {};
        for (int k = 0; k < steps; ++k) {
          const words pairs = load_words(b + k * tile_bytes + n);
          const auto first = register_cast<floats>(pairs << 16),
                     second = register_cast<floats>(pairs & 0xffff0000u);
          const float* const x = a + m * (tile_bytes / 2) + 2 * k;
#pragma GCC unroll 8
          for (int r = 0; r < rows_at_once; ++r) {
            even[r] = fused<V>(even[r], x[r * (tile_bytes / 2)], first);
            odd[r] = fused<V>(odd[r], x[r * (tile_bytes / 2) + 1], second);
          }
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows_at_once; ++r) {
          std::byte* const to = c + (m + r) * tile_bytes + n;
          const floats sum = register_cast<floats>(load_words(to)) + (even[r] + odd[r]);
          std::memcpy(to, &sum, sizeof sum);
        }
      }
  }
  [[gnu::noinline]] static void multiply_bytes(std::byte* c, const std::byte* a, const std::byte* b,
                                               int rows, int steps) {
    using integers = vec<std::int32_t, V>;
    for (int m = 0; m < rows; ++m)
      for (int n = 0; n < tile_bytes; n += 4 * V) {
        words sum = load_words(c + m * tile_bytes + n);
        for (int k = 0; k < steps; ++k) {
          const words fours = load_words(b + k * tile_bytes + n);
          for (unsigned i = 0; i < 4; ++i) {
            const integers of_b = register_cast<integers>(fours << (24 - 8 * i)) >> 24;
            sum += register_cast<words>(of_b) *
                   static_cast<std::uint32_t>(a[m * tile_bytes + 4 * k + static_cast<int>(i)]);
          }
        }
        std::memcpy(c + m * tile_bytes + n, &sum, sizeof sum);
      }
  }

  tile_shapes shapes_;
  bool is_wide_[tile_count] = {};
  alignas(64) std::byte tiles_[tile_count][tile_rows * tile_bytes];
  alignas(64) float wide_[tile_count][tile_rows * tile_bytes / 2];  // of tiles of A
};
static_assert(TileUnit<tile_vectors>);

}  // namespace cordee::inline CORDEE_ABI::detail::ops
