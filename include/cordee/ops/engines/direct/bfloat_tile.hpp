// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The tile of engine `direct` for bf16: pixels of an output row x blocks of V filters.
//
// A register holds the sums of V filters at one pixel; one instruction adds two channels to each:
//
//   sum[v] += x[0] w[v, 0] + x[1] w[v, 1]     x of a pixel, the same for all v
//
// in fp32, and each sum is rounded to bf16 once, when it is stored. The instruction treats
// subnormal operands and results as zero.
#pragma once

#include <cstdint>

#include <cordee/ops/engines/direct/tile.hpp>
#include <cordee/precision/bf16.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Whether this build's ISA has an instruction that adds two products of bf16 to 32 bits.
#if defined(__AVX512BF16__)
inline constexpr bool bfloat_dots = true;
#else
inline constexpr bool bfloat_dots = false;
#endif

/// Two channels of V filters, (V, 2) numbers of bf16, the even channel in the low half.
template <int V>
using bfloat_pairs = vec<std::uint32_t, V>;

/// sum[v] + both products of x's and w[v]'s halves.
template <int V, bool Dots>
struct bfloat_dot {
  [[gnu::always_inline]] static vec<float, V> add(vec<float, V> sum, std::uint32_t x,
                                                  bfloat_pairs<V> w) {
    const bfloat_pairs<V> pixel = bfloat_pairs<V>{} + x;
    sum += register_cast<vec<float, V>>(pixel & 0xffff0000u) *
           register_cast<vec<float, V>>(w & 0xffff0000u);
    return sum + register_cast<vec<float, V>>(pixel << 16) * register_cast<vec<float, V>>(w << 16);
  }
};
#if defined(__AVX512BF16__)
// As assembly, since compilers have different types for registers of bf16.
template <>
struct bfloat_dot<16, true> {
  [[gnu::always_inline]] static vec<float, 16> add(vec<float, 16> sum, std::uint32_t x,
                                                   bfloat_pairs<16> w) {
    const bfloat_pairs<16> pixel = bfloat_pairs<16>{} + x;
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(w), "v"(pixel));
    return sum;
  }
};
#endif

/// The memory of a tile. Pitches count numbers.
struct bfloat_area {
  int blocks = 0, window = 0;                         // of channels, V each; rows and columns
  const bfloat* x = nullptr;                          // the window's first pixel
  std::ptrdiff_t x_step = 0, x_row = 0, x_block = 0;  // between pixels of y; rows, blocks of x
  const bfloat* w = nullptr;                          // (C/V, R, S, V/2, V, 2)
  std::ptrdiff_t w_block = 0;                         // from one block of filters to the next
  bfloat* y = nullptr;                                // (pixels, V)
  std::ptrdiff_t y_block = 0;
  bool add = false;  // to y instead of overwriting it
};

template <int V, bool Dots, int Blocks, int Pixels>
[[gnu::noinline]] void bfloat_tile(const bfloat_area& at) {
  typedef std::uint32_t pair [[gnu::may_alias, gnu::aligned(2)]];
  tile_sums<float, V, Blocks, Pixels> sum{};
  const bfloat* w = at.w;
  for (int block = 0; block < at.blocks; ++block)
    for (int r = 0; r < at.window; ++r) {
      const bfloat* x = at.x + block * at.x_block + r * at.x_row;
      for (const bfloat* const end = x + at.window * V; x != end; x += 2, w += 2 * V) {
        bfloat_pairs<V> weight[std::size_t{Blocks}];
#pragma GCC unroll 32
        for (int b = 0; b < Blocks; ++b)
          weight[b] =
              load<std::uint32_t, V>(reinterpret_cast<const std::uint32_t*>(w + b * at.w_block));
#pragma GCC unroll 32
        for (int t = 0; t < Pixels; ++t) {
          const std::uint32_t pixel = *reinterpret_cast<const pair*>(x + t * at.x_step);
#pragma GCC unroll 32
          for (int b = 0; b < Blocks; ++b)
            sum[b][t] = bfloat_dot<V, Dots>::add(sum[b][t], pixel, weight[b]);
        }
      }
    }
  for (int b = 0; b < Blocks; ++b)
    for (int t = 0; t < Pixels; ++t) {
      bfloat* const y = at.y + b * at.y_block + t * V;
      store<bfloat, V>(y, at.add ? load<bfloat, V>(y) + sum[b][t] : sum[b][t]);
    }
}

/// `pixels` adjacent pixels of a row.
template <int V, bool Dots, int Blocks>
void bfloat_row(bfloat_area at, int pixels) {
  const bfloat_area row = at;
  for_tiles<tile_registers<float, V> / Blocks>(
      tile_lengths<float, V, Blocks>{}, pixels, [&]<int Pixels>(int done, int tiles) {
        at.x = row.x + done * row.x_step;
        at.y = row.y + std::ptrdiff_t{V} * done;
        for (; tiles > 0; --tiles, at.x += Pixels * at.x_step, at.y += Pixels * V)
          bfloat_tile<V, Dots, Blocks, Pixels>(at);
      });
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
