// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The tile of engine `direct` for bytes: pixels of an output row x blocks of V filters.
//
// A register holds the sums of V filters at one pixel; one instruction adds four channels to each:
//
//   sum[v] += sum over i < 4 of  x[i] w[v, i]     x of a pixel, the same for all v
//
// and at the end the sums become the numbers that they stand for, while they are in registers. What
// the next row writes and the next sample reads is fetched on the way.
#pragma once

#include <cstring>

#include <cordee/ops/convolution_bytes.hpp>
#include <cordee/ops/direct/tile.hpp>
#include <cordee/ops/quantise_lanes.hpp>

namespace cordee::inline CORDEE_ABI {

/// Whether this build's ISA multiplies bytes four at a time into 32 bits.
#if defined(__AVX512VNNI__) || (defined(__AVXVNNI__) && !defined(__AVX512F__))
inline constexpr bool byte_dots = true;
#else
inline constexpr bool byte_dots = false;
#endif

namespace detail {

template <int V>
using sum_vec = vec<std::int32_t, V>;

/// sum[v] + the four products of x's unsigned and w[v]'s signed bytes.
template <int V, bool Dots>
struct byte_dot {
  static sum_vec<V> add(sum_vec<V> sum, std::int32_t x, sum_vec<V> w) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) sum += (x >> 8 * i & 255) * ((w << (24 - 8 * i)) >> 24);
    return sum;
  }
};
// Instructions are written out, as compilers have different names for them.
#if defined(__AVX2__)
// Without the instruction: bytes at even places and those at odd ones, as 16 bits, two products of
// either to a sum. The shifts are of a tile's weights and pixels, and so are made once for each.
template <>
struct byte_dot<8, false> {
  [[gnu::always_inline]] static sum_vec<8> add(sum_vec<8> sum, std::int32_t x, sum_vec<8> w) {
    const auto pixel = reinterpret_cast<vec<std::uint16_t, 16>>(sum_vec<8>{} + x);
    const auto weight = reinterpret_cast<vec<std::int16_t, 16>>(w);
    return sum + products(pixel & 255, (weight << 8) >> 8) + products(pixel >> 8, weight >> 8);
  }

 private:
  [[gnu::always_inline]] static sum_vec<8> products(vec<std::uint16_t, 16> x,
                                                    vec<std::int16_t, 16> w) {
    sum_vec<8> all;
    __asm__("vpmaddwd %2, %1, %0" : "=v"(all) : "v"(x), "v"(w));
    return all;
  }
};
#endif
#if defined(__AVX512VNNI__)
template <>
struct byte_dot<16, true> {
  [[gnu::always_inline]] static sum_vec<16> add(sum_vec<16> sum, std::int32_t x, sum_vec<16> w) {
    const sum_vec<16> all = sum_vec<16>{} + x;
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(all), "v"(w));
    return sum;
  }
};
#elif defined(__AVXVNNI__)
template <>
struct byte_dot<8, true> {
  [[gnu::always_inline]] static sum_vec<8> add(sum_vec<8> sum, std::int32_t x, sum_vec<8> w) {
    const sum_vec<8> all = sum_vec<8>{} + x;
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(all), "x"(w));
    return sum;
  }
};
#endif

/// Where a tile of one output row lies. Pitches count bytes of x and w, numbers of y.
template <SumSink Out>
struct byte_tile {
  const std::uint8_t* x = nullptr;
  std::ptrdiff_t x_step = 0, x_row = 0, x_block = 0;  // from pixel to pixel; of the input
  const std::int8_t* w = nullptr;
  std::ptrdiff_t w_block = 0;
  const std::int32_t* begin = nullptr;  // where the sums of V filters begin
  const float* scales = nullptr;        // and what they are times
  Out* y = nullptr;
  std::ptrdiff_t y_block = 0, y_row = 0;
  int blocks = 0, rows = 0, steps = 0;  // of input: blocks, rows of the window, fours of a line
  const char* next = nullptr;           // what the next sample reads, of which to fetch
  int lines = 0;                        // so many with each row of a window
  bool slides = false;                  // three columns to a window, one pixel apart, V bytes each
};

/// Where windows slide, four bytes that are loaded serve three sums; a tap's weights are V x V.
template <int V, bool Dots, int Blocks, int Pixels, bool Slides, SumSink Out>
[[gnu::noinline]] void byte_sums(byte_tile<Out>& at) {
  sum_vec<V> sum[Blocks][Pixels];
#pragma GCC unroll 32
  for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 32
    for (int t = 0; t < Pixels; ++t) sum[b][t] = load<std::int32_t, V>(at.begin + b * V);
  const std::ptrdiff_t step = at.x_step;
  const std::int8_t* w = at.w;
  for (int c = 0; c < at.blocks; ++c)
    for (int r = 0; r < at.rows; ++r) {
      if (c == 0)
        for (int t = r; t < Pixels; t += at.rows)
#pragma GCC unroll 32
          for (int b = 0; b < Blocks; ++b)
            __builtin_prefetch(at.y + at.y_row + b * at.y_block + t * V, 1);
      for (int k = 0; k < at.lines; ++k, at.next += 64) __builtin_prefetch(at.next, 0, 2);
      const std::uint8_t* x = at.x + c * at.x_block + r * at.x_row;
      if constexpr (Slides) {
        for (int i = 0; i < V / 4; ++i, w += 4 * V, x += 4) {
          sum_vec<V> weight[Blocks][3];
#pragma GCC unroll 32
          for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 3
            for (int s = 0; s < 3; ++s)
              std::memcpy(&weight[b][s], w + b * at.w_block + s * V * V, sizeof weight[b][s]);
#pragma GCC unroll 32
          for (int t = 0; t < Pixels + 2; ++t) {
            std::int32_t four;
            std::memcpy(&four, x + t * V, 4);
#pragma GCC unroll 3
            for (int s = 0; s < 3; ++s)
              if (t >= s && t - s < Pixels)
#pragma GCC unroll 32
                for (int b = 0; b < Blocks; ++b)
                  sum[b][t - s] = byte_dot<V, Dots>::add(sum[b][t - s], four, weight[b][s]);
          }
        }
        w += 2 * V * V;
        continue;
      }
      // A pointer to every fourth pixel: the others' places are part of the instructions.
      const std::uint8_t *x4 = x + 4 * step, *x8 = x4 + 4 * step, *x12 = x8 + 4 * step;
      for (int i = 0; i < at.steps; ++i, w += 4 * V, x += 4, x4 += 4, x8 += 4, x12 += 4) {
        sum_vec<V> weight[Blocks];
#pragma GCC unroll 32
        for (int b = 0; b < Blocks; ++b)
          std::memcpy(&weight[b], w + b * at.w_block, sizeof weight[b]);
#pragma GCC unroll 32
        for (int t = 0; t < Pixels; ++t) {
          std::int32_t four;
          std::memcpy(&four, (t < 4 ? x : t < 8 ? x4 : t < 12 ? x8 : x12) + t % 4 * step, 4);
#pragma GCC unroll 32
          for (int b = 0; b < Blocks; ++b)
            sum[b][t] = byte_dot<V, Dots>::add(sum[b][t], four, weight[b]);
        }
      }
    }
  Out* const y = at.y;
  const std::ptrdiff_t y_block = at.y_block;
#pragma GCC unroll 32
  for (int b = 0; b < Blocks; ++b) {
    [[maybe_unused]] const auto scale = load<float, V>(at.scales + b * V);
#pragma GCC unroll 32
    for (int t = 0; t < Pixels; ++t)
      if constexpr (std::same_as<Out, float>)
        store<float, V>(y + b * y_block + t * V,
                        scale * __builtin_convertvector(sum[b][t], vec<float, V>));
      else
        store<std::int32_t, V>(y + b * y_block + t * V, sum[b][t]);
  }
}

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
