// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The tile of engine `direct` for bytes: pixels of an output row x blocks of V filters.
//
// A register holds the sums of V filters at one pixel; one instruction adds four channels to each:
//
//   sum[v] += sum over i < 4 of  x[i] w[v, i]     x of a pixel, the same for all v
//
// and at the end the sums are scaled, while they are in registers. The next row's y, the next
// sample's x and the next filters' w are prefetched.
#pragma once

#include <cstring>

#include <cordee/ops/convolution_bytes.hpp>
#include <cordee/ops/cpu/quantize.hpp>
#include <cordee/ops/engines/direct/tiles/tile.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Whether this build's ISA has an instruction that adds four products of bytes to 32 bits.
#if defined(__AVX512VNNI__) || (defined(__AVXVNNI__) && !defined(__AVX512F__)) || \
    defined(__ARM_FEATURE_MATMUL_INT8) || defined(__ARM_FEATURE_DOTPROD)
inline constexpr bool byte_dots = true;
#else
inline constexpr bool byte_dots = false;
#endif

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
// As assembly, since compilers have different names for these instructions.
#if defined(__AVX512BW__)
// Without the instruction: even and odd bytes, widened to 16 bits, two products of either to a sum.
// The shifts depend on the weights or on the pixel alone, so each is done once for a tile.
template <int V>
struct byte_dot_by_pairs {
  [[gnu::always_inline]] static sum_vec<V> add(sum_vec<V> sum, std::int32_t x, sum_vec<V> w) {
    const auto pixel = reinterpret_cast<vec<std::uint16_t, 2 * V>>(sum_vec<V>{} + x);
    const auto weight = reinterpret_cast<vec<std::int16_t, 2 * V>>(w);
    return sum + products(pixel & 255, (weight << 8) >> 8) + products(pixel >> 8, weight >> 8);
  }

 private:
  [[gnu::always_inline]] static sum_vec<V> products(vec<std::uint16_t, 2 * V> x,
                                                    vec<std::int16_t, 2 * V> w) {
    sum_vec<V> pairs;
    __asm__("vpmaddwd %2, %1, %0" : "=v"(pairs) : "v"(x), "v"(w));
    return pairs;
  }
};
template <>
struct byte_dot<16, false> : byte_dot_by_pairs<16> {};
#endif
#if defined(__AVX512VNNI__)
template <>
struct byte_dot<16, true> {
  [[gnu::always_inline]] static sum_vec<16> add(sum_vec<16> sum, std::int32_t x, sum_vec<16> w) {
    const sum_vec<16> pixel = sum_vec<16>{} + x;
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(pixel), "v"(w));
    return sum;
  }
};
#elif defined(__AVXVNNI__)
template <>
struct byte_dot<8, true> {
  [[gnu::always_inline]] static sum_vec<8> add(sum_vec<8> sum, std::int32_t x, sum_vec<8> w) {
    const sum_vec<8> pixel = sum_vec<8>{} + x;
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(pixel), "x"(w));
    return sum;
  }
};
#elif defined(__ARM_FEATURE_MATMUL_INT8)
template <>
struct byte_dot<lanes<float>, true> {
  static constexpr int V = lanes<float>;
  [[gnu::always_inline]] static sum_vec<V> add(sum_vec<V> sum, std::int32_t x, sum_vec<V> w) {
    const sum_vec<V> pixel = sum_vec<V>{} + x;
    if constexpr (V == 4)
      __asm__("usdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(pixel), "w"(w));
    else
      __asm__("usdot %0.s, %1.b, %2.b" : "+w"(sum) : "w"(pixel), "w"(w));
    return sum;
  }
};
#elif defined(__ARM_FEATURE_DOTPROD)
// Both operands of sdot are signed: with x - 128 in place of x it lacks 128 times the weights' sum,
// which depends on the weights alone, so it is computed once for a tile.
template <>
struct byte_dot<lanes<float>, true> {
  static constexpr int V = lanes<float>;
  [[gnu::always_inline]] static sum_vec<V> add(sum_vec<V> sum, std::int32_t x, sum_vec<V> w) {
    using words = vec<std::uint32_t, V>;  // whose sums may exceed 32 bits on the way
    const std::uint32_t signs = 0x80808080u;
    const words lacking = products(words{}, words{} + signs, w),
                pixel = words{} + (static_cast<std::uint32_t>(x) ^ signs);
    return register_cast<sum_vec<V>>(products(register_cast<words>(sum), pixel, w) - lacking);
  }

 private:
  [[gnu::always_inline]] static vec<std::uint32_t, V> products(vec<std::uint32_t, V> sum,
                                                               vec<std::uint32_t, V> x,
                                                               sum_vec<V> w) {
    if constexpr (V == 4)
      __asm__("sdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(x), "w"(w));
    else
      __asm__("sdot %0.s, %1.b, %2.b" : "+w"(sum) : "w"(x), "w"(w));
    return sum;
  }
};
#endif

/// Where numbers begin.
template <class Number>
const std::uint8_t* byte_address(const Number* x) {
  return reinterpret_cast<const std::uint8_t*>(x);
}

/// The memory of a tile of one output row. Pitches count bytes of x and w, numbers of y.
template <class Out>
struct byte_tile {
  const std::uint8_t* x = nullptr;  // (C/B, rows, columns, B), from the tile's first pixel on
  std::ptrdiff_t x_step = 0, x_row = 0, x_block = 0;  // x_step: from output pixel to pixel
  std::ptrdiff_t x_half = 0;  // from pixel 0 of a tile of 14 to pixel 7: they may be of two rows
  const std::int8_t* w = nullptr;  // (filter blocks, C/B, R, steps, V, 4 bytes)
  std::ptrdiff_t w_block = 0;
  const std::int32_t* initial = nullptr;  // of the sums, one for each filter
  const float* scales = nullptr;          // of the sums, one for each filter
  Out* y = nullptr;  // (filter blocks, H', W', V), from the tile's first pixel on
  std::ptrdiff_t y_block = 0, y_row = 0;
  int y_lines = 0;  // pixels of y that an epilogue prefetches with each window row
  int blocks = 0, rows = 0, steps = 0;  // input blocks, window rows, groups of 4 bytes in a row
  const char* prefetch = nullptr;       // the next sample's input, or the next filters' weights
  int prefetch_lines = 0;               // cache lines of it with each window row
  int rows_at_once = 0;                 // window rows whose sums fit 16 bits (byte_pair_tile.hpp)
  bool dense = false;                   // byte_dense_tile.hpp: windows of one pixel
  bool rows3x3 = false;                 // a window row is three pixels of V bytes, stride 1
};

/// The epilogue of a tile that stores its sums, scaled if they are floats. Others have
/// of_block(b, y), which returns what is called with an offset from y and the sums of one pixel or
/// of four, and prefetch(y).
struct store_byte_sums {};

/// Calls the epilogue with all sums.
template <int V, class Out, std::size_t Blocks, std::size_t Pixels, class Epilogue>
[[gnu::always_inline]] inline void finish_sums(const byte_tile<Out>& at,
                                               const sum_vec<V> (&sum)[Blocks][Pixels],
                                               const Epilogue& epilogue) {
#pragma GCC unroll 32
  for (std::size_t b = 0; b < Blocks; ++b) {
    const auto first = static_cast<std::ptrdiff_t>(b) * at.y_block;
    const auto finish = epilogue.of_block(b, at.y + first);
#pragma GCC unroll 32
    for (std::size_t t = 0; t + 4 <= Pixels; t += 4)
      finish(t * V, sum[b][t], sum[b][t + 1], sum[b][t + 2], sum[b][t + 3]);
#pragma GCC unroll 4
    for (std::size_t t = Pixels / 4 * 4; t < Pixels; ++t) finish(t * V, sum[b][t]);
  }
}

/// With Rows3x3, four loaded bytes are added to three sums; a tap's weights are V x V.
template <int V, bool Dots, int Blocks, int Pixels, bool Rows3x3, class Out,
          class Epilogue = store_byte_sums>
[[gnu::noinline]] void byte_sums(byte_tile<Out>& at, const Epilogue& epilogue = {}) {
  constexpr bool stores = std::same_as<Epilogue, store_byte_sums>;
  sum_vec<V> sum[std::size_t{Blocks}][std::size_t{Pixels}];  // (Blocks, Pixels, V)
#pragma GCC unroll 32
  for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 32
    for (int t = 0; t < Pixels; ++t) sum[b][t] = load<std::int32_t, V>(at.initial + b * V);
  const std::ptrdiff_t step = at.x_step;
  const std::int8_t* w = at.w;
  int prefetched = 0;  // pixels of the tile after the next one
  for (int c = 0; c < at.blocks; ++c)
    for (int r = 0; r < at.rows; ++r) {
      if constexpr (stores) {
        if (c == 0)
          for (int t = r; t < Pixels; t += at.rows)
#pragma GCC unroll 32
            for (int b = 0; b < Blocks; ++b)
              __builtin_prefetch(at.y + at.y_row + b * at.y_block + t * V, 1);
      } else {
        for (int k = 0; k < at.y_lines && prefetched < Pixels; ++k, ++prefetched)
#pragma GCC unroll 2
          for (int b = 0; b < Blocks; ++b)
            epilogue.prefetch(at.y + b * at.y_block + (2 * Pixels + prefetched) * V);
      }
      for (int k = 0; k < at.prefetch_lines; ++k, at.prefetch += 64)
        __builtin_prefetch(at.prefetch, 0, 2);
      const std::uint8_t* x = at.x + c * at.x_block + r * at.x_row;
      if constexpr (Rows3x3) {
        for (int i = 0; i < V / 4; ++i, w += 4 * V, x += 4) {
          sum_vec<V> weight[std::size_t{Blocks}][3];
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
      // A pointer to at most four pixels: the others' offsets are part of the instructions.
      constexpr int half = Pixels == 14 ? 7 : 8;
      const std::uint8_t *x4 = x + 4 * step, *y0 = x + (half == 7 ? at.x_half : 8 * step),
                         *y4 = y0 + 4 * step;
      for (int i = 0; i < at.steps; ++i, w += 4 * V, x += 4, x4 += 4, y0 += 4, y4 += 4) {
        sum_vec<V> weight[std::size_t{Blocks}];
#pragma GCC unroll 32
        for (int b = 0; b < Blocks; ++b)
          std::memcpy(&weight[b], w + b * at.w_block, sizeof weight[b]);
#pragma GCC unroll 32
        for (int t = 0; t < Pixels; ++t) {
          std::int32_t four;
          const int u = t % half;
          std::memcpy(&four, (t < half ? (u < 4 ? x : x4) : (u < 4 ? y0 : y4)) + u % 4 * step, 4);
#pragma GCC unroll 32
          for (int b = 0; b < Blocks; ++b)
            sum[b][t] = byte_dot<V, Dots>::add(sum[b][t], four, weight[b]);
        }
      }
    }
  if constexpr (!stores) return finish_sums<V>(at, sum, epilogue);
  Out* const y = at.y;
  const std::ptrdiff_t y_block = at.y_block;
#pragma GCC unroll 32
  for (int b = 0; b < Blocks; ++b) {
    [[maybe_unused]] vec<float, V> scale{};  // sums alone have none
    if constexpr (std::same_as<Out, float>) scale = load<float, V>(at.scales + b * V);
#pragma GCC unroll 32
    for (int t = 0; t < Pixels; ++t)
      if constexpr (std::same_as<Out, float>)
        store<float, V>(y + b * y_block + t * V,
                        scale * __builtin_convertvector(sum[b][t], vec<float, V>));
      else if constexpr (stores)
        store<std::int32_t, V>(y + b * y_block + t * V, sum[b][t]);
  }
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
