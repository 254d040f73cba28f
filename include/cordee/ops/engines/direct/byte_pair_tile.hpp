// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The tile of engine `direct` for bytes with AVX2 alone: six pixels x two blocks of V filters.
//
//   sum[v] += x[0] w[v, 0] + x[1] w[v, 1]     x of a pixel, the same for all v
//
// vpmaddwd adds two products of 16 bits, so both operands are widened once, where they are packed
// and copied. Twelve sums, two weights, a pixel and a product are all 16 registers. The pixels are
// any six: one offset is added to their addresses.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cordee/ops/convolution_bytes.hpp>
#include <cordee/ops/engines/direct/byte_tile.hpp>
#include <cordee/ops/engines/direct/tile.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Whether a convolution without the instruction for four products has this tile.
#if defined(__AVX2__)
template <int V>
inline constexpr bool has_byte_pairs = V == 8;
#else
template <int V>
inline constexpr bool has_byte_pairs = false;
#endif

inline constexpr int pair_tile_pixels = 6;

/// The memory of a tile: its pixels, and the rest as in byte_tile, of which x is not read.
template <ByteConvolutionOutput Out>
struct pair_tile : byte_tile<Out> {
  const std::uint8_t* pixels[std::size_t{pair_tile_pixels}] = {};
};

#if defined(__AVX2__)
/// Both sums of a pixel. As one text, whose order and registers compilers would change.
[[gnu::always_inline]] inline void add_pair(sum_vec<8>& sum0, sum_vec<8>& sum1,
                                            const std::uint8_t* x, const vec<std::int8_t, 32>& w0,
                                            const vec<std::int8_t, 32>& w1) {
  sum_vec<8> pixel, product;
  __asm__(
      "vpbroadcastd %4, %2\n\t"
      "vpmaddwd %5, %2, %3\n\t"
      "vpmaddwd %6, %2, %2\n\t"
      "vpaddd %3, %0, %0\n\t"
      "vpaddd %2, %1, %1"
      : "+x"(sum0), "+x"(sum1), "=&x"(pixel), "=&x"(product)
      : "m"(*reinterpret_cast<const std::uint8_t(*)[4]>(x)), "x"(w0), "x"(w1));
}

/// Both blocks of filters; a single one is computed twice, with w_block = y_block = 0.
template <ByteConvolutionOutput Out>
[[gnu::noinline]] void pair_sums(pair_tile<Out>& at) {
  constexpr int V = 8, pixels = pair_tile_pixels;
  sum_vec<V> sum[2][std::size_t{pixels}];
  const std::ptrdiff_t next = at.w_block == 0 ? 0 : V;  // the second block's terms
#pragma GCC unroll 2
  for (int b = 0; b < 2; ++b)
#pragma GCC unroll 6
    for (int t = 0; t < pixels; ++t) sum[b][t] = load<std::int32_t, V>(at.initial + b * next);
  const std::uint8_t *const x0 = at.pixels[0], *const x1 = at.pixels[1], *const x2 = at.pixels[2],
                            *const x3 = at.pixels[3], *const x4 = at.pixels[4],
                            *const x5 = at.pixels[5];
  const std::int8_t *w0 = at.w, *w1 = w0 + at.w_block;
  std::ptrdiff_t i = 0;  // of all pixels: compilers would add it to each address
  const auto add = [&](int k) __attribute__((always_inline)) {
    const auto a = load<std::int8_t, 4 * V>(w0 + k * 4 * V),
               b = load<std::int8_t, 4 * V>(w1 + k * 4 * V);
    add_pair(sum[0][0], sum[1][0], x0 + i + 4 * k, a, b);
    add_pair(sum[0][1], sum[1][1], x1 + i + 4 * k, a, b);
    add_pair(sum[0][2], sum[1][2], x2 + i + 4 * k, a, b);
    add_pair(sum[0][3], sum[1][3], x3 + i + 4 * k, a, b);
    add_pair(sum[0][4], sum[1][4], x4 + i + 4 * k, a, b);
    add_pair(sum[0][5], sum[1][5], x5 + i + 4 * k, a, b);
  };
  const std::ptrdiff_t fours = at.steps / 4 * 16, rest = at.steps % 4 * 4;
  const std::ptrdiff_t x_block = at.x_block - at.rows * at.x_row;
  std::ptrdiff_t row = 0;
  for (int c = at.blocks; c > 0; --c, row += x_block)
    for (int r = at.rows; r > 0; --r, row += at.x_row) {
      for (int k = 0; k < at.prefetch_lines; ++k, at.prefetch += 64)
        __builtin_prefetch(at.prefetch, 0, 2);
      i = row;
      for (const std::ptrdiff_t end = i + fours; i != end; i += 16, w0 += 16 * V, w1 += 16 * V) {
        __asm__("" : "+r"(i));
        add(0);
        add(1);
        add(2);
        add(3);
      }
      for (const std::ptrdiff_t end = i + rest; i != end; i += 4, w0 += 4 * V, w1 += 4 * V) {
        __asm__("" : "+r"(i));
        add(0);
      }
    }
  Out* const y = at.y;
  const std::ptrdiff_t y_block = at.y_block;
#pragma GCC unroll 2
  for (int b = 0; b < 2; ++b) {
    [[maybe_unused]] vec<float, V> scale{};
    if constexpr (std::same_as<Out, float>) scale = load<float, V>(at.scales + b * next);
#pragma GCC unroll 6
    for (int t = 0; t < pixels; ++t)
      if constexpr (std::same_as<Out, float>)
        store<float, V>(y + b * y_block + t * V,
                        scale * __builtin_convertvector(sum[b][t], vec<float, V>));
      else
        store<std::int32_t, V>(y + b * y_block + t * V, sum[b][t]);
  }
}
#endif

}  // namespace cordee::inline CORDEE_ABI::detail::ops
