// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Eight tiles of at most 16 rows of 64 bytes, and products of them (AMX): as the processor's
// instructions, and as plain C++ with the same bits.
//
//   bf16    c[m, n] += even + odd,  even = sum over k of a[m, 2k] b[k, n, 0],  odd with 2k+1 and 1
//   bytes   c[m, n] += sum over k and i < 4 of  a[m, 4k+i] b[k, n, i]       modulo 2^32
//
// with c (M, N) of 32 bits, a (M, 4K bytes) and b (K, N, 4 bytes): the operands of a step of the
// sum are adjacent in b, too. Each of bf16's two sums is a chain of fused multiply-adds in fp32 in
// the order of k, begun with zero; then they are added to each other, and that sum to c. All round
// to nearest, and subnormal operands and results are zero (Intel's manual, TDPBF16PS). So the bits
// of a sum depend on how many terms one product takes: 2^24 + 1 + 1 is 2^24 + 2.
//
// Kernels are templates over the unit. Tiles are named by constants, since an instruction names
// its registers.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <cordee/precision/bf16.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

inline constexpr int tile_rows = 16;   ///< At most, of a tile.
inline constexpr int tile_bytes = 64;  ///< At most, of a row.
inline constexpr int tile_count = 8;   ///< Of a unit.

/// Rows, and bytes of each row, of the eight tiles; 0 and 0: not used. In the order of LDTILECFG.
struct alignas(64) tile_shapes {
  std::uint8_t palette = 1, start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  constexpr tile_shapes& set(int tile, int tile_rows_of, int bytes) {
    rows[tile] = static_cast<std::uint8_t>(tile_rows_of);
    row_bytes[tile] = static_cast<std::uint16_t>(bytes);
    return *this;
  }
};
static_assert(sizeof(tile_shapes) == 64);

/// A unit is configured by its constructor and released by its destructor, on one thread, which has
/// no other meanwhile. A tile's rows lie `pitch` bytes apart in memory; bytes and rows beyond its
/// shape are neither read nor written.
template <class U>
concept TileUnit = std::constructible_from<U, const tile_shapes&> && !std::copyable<U> &&
                   requires(U u, const void* from, void* to, std::ptrdiff_t pitch) {
                     u.template zero<0>();
                     u.template load<1>(from, pitch);
                     u.template store<0>(to, pitch);
                     u.template add_bf16<0, 1, 2>();
                     u.template add_bytes<0, 1, 2>();
                   };

/// The unit in plain C++.
class tile_model {
 public:
  explicit tile_model(const tile_shapes& shapes) : shapes_(shapes) {}
  tile_model(const tile_model&) = delete;
  tile_model& operator=(const tile_model&) = delete;

  template <int T>
  void zero() {
    std::memset(tiles_[T], 0, sizeof tiles_[T]);
  }
  template <int T>
  void load(const void* from, std::ptrdiff_t pitch) {
    zero<T>();
    for (int r = 0; r < rows(T); ++r)
      std::memcpy(tiles_[T] + r * tile_bytes, static_cast<const std::byte*>(from) + r * pitch,
                  bytes(T));
  }
  template <int T>
  void store(void* to, std::ptrdiff_t pitch) const {
    for (int r = 0; r < rows(T); ++r)
      std::memcpy(static_cast<std::byte*>(to) + r * pitch, tiles_[T] + r * tile_bytes, bytes(T));
  }
  /// Tile C += A B of bf16, C in fp32.
  template <int C, int A, int B>
  void add_bf16() {
    constexpr int N = tile_bytes / 4;
    const int steps = static_cast<int>(bytes(A) / 4);
    float even_of_b[tile_rows][N], odd_of_b[tile_rows][N];
    for (int k = 0; k < steps; ++k)
      for (int n = 0; n < N; ++n) {
        even_of_b[k][n] = operand(B, k, 2 * n);
        odd_of_b[k][n] = operand(B, k, 2 * n + 1);
      }
    for (int m = 0; m < rows(C); ++m) {
      float even[N] = {}, odd[N] = {};
      for (int k = 0; k < steps; ++k) {
        const float a = operand(A, m, 2 * k), next = operand(A, m, 2 * k + 1);
        for (int n = 0; n < N; ++n) {
          even[n] = flushed(__builtin_fmaf(a, even_of_b[k][n], even[n]));
          odd[n] = flushed(__builtin_fmaf(next, odd_of_b[k][n], odd[n]));
        }
      }
      for (int n = 0; n < static_cast<int>(bytes(C) / 4); ++n) {
        std::byte* const at = tiles_[C] + m * tile_bytes + n * 4;
        const float sum = flushed(flushed(number<float>(at)) + flushed(even[n] + odd[n]));
        std::memcpy(at, &sum, 4);
      }
    }
  }
  /// Tile C += A B, A of unsigned bytes, B of signed ones, C of 32-bit integers.
  template <int C, int A, int B>
  void add_bytes() {
    for (int m = 0; m < rows(C); ++m)
      for (int n = 0; n < static_cast<int>(bytes(C) / 4); ++n) {
        std::byte* const at = tiles_[C] + m * tile_bytes + n * 4;
        auto sum = number<std::uint32_t>(at);
        for (int i = 0; i < static_cast<int>(bytes(A)); ++i)
          sum += static_cast<std::uint32_t>(
              number<std::uint8_t>(tiles_[A] + m * tile_bytes + i) *
              number<std::int8_t>(tiles_[B] + i / 4 * tile_bytes + 4 * n + i % 4));
        std::memcpy(at, &sum, 4);
      }
  }

 private:
  template <class X>
  static X number(const std::byte* from) {
    X x;
    std::memcpy(&x, from, sizeof x);
    return x;
  }
  static float flushed(float x) {
    return __builtin_fabsf(x) < std::numeric_limits<float>::min() ? __builtin_copysignf(0.0f, x)
                                                                  : x;
  }
  /// Number i of bf16 in row r of a tile.
  [[nodiscard]] float operand(int tile, int r, int i) const {
    return flushed(bfloat{number<std::uint16_t>(tiles_[tile] + r * tile_bytes + 2 * i)}.exact());
  }
  [[nodiscard]] int rows(int tile) const { return shapes_.rows[tile]; }
  [[nodiscard]] std::size_t bytes(int tile) const { return shapes_.row_bytes[tile]; }

  tile_shapes shapes_;
  alignas(64) std::byte tiles_[tile_count][tile_rows * tile_bytes] = {};
};
static_assert(TileUnit<tile_model>);

#if CORDEE_ABI_AMX
/// The processor's unit. In assembly, since g++ 12's intrinsics paste the name of a tile into it,
/// which a template's parameter is not. Requires the system's permission (permission.hpp); else the
/// process ends by SIGILL.
class amx_tiles {
 public:
  explicit amx_tiles(const tile_shapes& shapes) {
    __asm__ volatile("ldtilecfg %0" : : "m"(shapes));
  }
  amx_tiles(const amx_tiles&) = delete;
  amx_tiles& operator=(const amx_tiles&) = delete;
  ~amx_tiles() { __asm__ volatile("tilerelease"); }

  template <int T>
  [[gnu::always_inline]] void zero() {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(T));
  }
  template <int T>
  [[gnu::always_inline]] void load(const void* from, std::ptrdiff_t pitch) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(pitch), "i"(T) : "memory");
  }
  template <int T>
  [[gnu::always_inline]] void store(void* to, std::ptrdiff_t pitch) const {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(pitch), "i"(T) : "memory");
  }
  template <int C, int A, int B>
  [[gnu::always_inline]] void add_bf16() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
    keep_awake();
  }
  template <int C, int A, int B>
  [[gnu::always_inline]] void add_bytes() {
    __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
    keep_awake();
  }

 private:
  /// A tile's store waits 1,000 cycles if the vectors' multipliers had nothing to do for 2,000
  /// (Emerald Rapids, benchmarks/results/2026-11-29-amx.md). Multiplies whatever a register holds:
  /// integers have neither flags nor subnormals.
  [[gnu::always_inline]] static void keep_awake() {
    float any;
    __asm__ volatile("vpmaddwd %0, %0, %0" : "=x"(any));
  }
};
static_assert(TileUnit<amx_tiles>);
using default_tile_unit = amx_tiles;
#else
using default_tile_unit = tile_model;
#endif

}  // namespace cordee::inline CORDEE_ABI::detail::ops
