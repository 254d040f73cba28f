// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The tile of engine `direct` for bytes with AVX2 alone: six pixels x two blocks of V filters.
//
//   sum[v] += x[0] w[v, 0] + x[1] w[v, 1]     x of a pixel, the same for all v
//
// vpmaddwd adds two products of 16 bits, so both operands are widened once, where they are packed
// and copied. Twelve sums, two weights, a pixel and a product are all 16 registers. The pixels are
// any six: one offset is added to their addresses. Without loads Zen 3 was measured at 25.8
// multiplications a cycle, beside 16 of fp32: sums take cycles from the products' two units.
//
// Small weights have products by vpmaddubsw, four a lane of 32 bits, whose sums have 16 bits until
// some window rows are added (bytes.hpp).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include <cordee/core/algorithm.hpp>
#include <cordee/ops/convolution_bytes.hpp>
#include <cordee/ops/engines/direct/int8/byte_tile.hpp>
#include <cordee/ops/engines/direct/tiles/tile.hpp>

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

/// Kinds of products. `number`: as which a sample's bytes are stored.
template <bool Dots>
struct byte_products {  // of four bytes, in the tiles of byte_tile.hpp
  using number = std::uint8_t;
  using weight = std::int8_t;
  static constexpr int panel = 0;
  static constexpr bool dots = Dots, short_sums = false;
};
struct pair_products {  // of two numbers of 16 bits
  using number = std::uint16_t;
  using weight = std::int16_t;
  static constexpr int panel = pair_tile_pixels;
  static constexpr bool dots = false, short_sums = false;
};
struct short_products {  // of four bytes, two to a sum of 16 bits
  using number = std::uint8_t;
  using weight = std::int8_t;
  static constexpr int panel = pair_tile_pixels;
  static constexpr bool dots = false, short_sums = true;
};

/// The memory of a tile: its pixels, and the rest as in byte_tile, of which x is not read.
template <ByteConvolutionOutput Out>
struct pair_tile : byte_tile<Out> {
  const std::uint8_t* pixels[std::size_t{pair_tile_pixels}] = {};
};

/// Pixels first .. first + pixels - 1 of y, whose windows lie x_step apart in runs of `length`, and
/// these a pitch apart, from all.x on; all.y is the first of them. The last tile is of the last six
/// pixels, some of them again. Defined where has_byte_pairs.
template <bool Short, ByteConvolutionOutput Out>
void pair_tiles(const byte_tile<Out>& all, bool two_blocks, int first, int pixels, int length,
                std::ptrdiff_t pitch);

/// Whole panels of six pixels, which follow each other from all.x on; y has as many pixels. Defined
/// where has_byte_pairs.
template <ByteConvolutionOutput Out>
void pair_panels(const byte_tile<Out>& all, bool two_blocks, int panels);

/// Pixels first .. first + pixels - 1 of panels a pitch apart, from all.x on: those of a part of a
/// panel, whole panels, and those of another part; all.y is the first one's.
template <ByteConvolutionOutput Out>
void pair_panels_of(const byte_tile<Out>& all, bool two_blocks, int first, int pixels,
                    std::ptrdiff_t pitch);

#if defined(__AVX2__)
/// Both sums of a pixel. As one text, whose order and registers compilers would change.
template <bool Short>
[[gnu::always_inline]] inline void add_pair(sum_vec<8>& sum0, sum_vec<8>& sum1,
                                            const std::uint8_t* x, const vec<std::int8_t, 32>& w0,
                                            const vec<std::int8_t, 32>& w1) {
  sum_vec<8> pixel, product;
  if constexpr (Short)
    __asm__(
        "vpbroadcastd %4, %2\n\t"
        "vpmaddubsw %5, %2, %3\n\t"
        "vpmaddubsw %6, %2, %2\n\t"
        "vpaddw %3, %0, %0\n\t"
        "vpaddw %2, %1, %1"
        : "+x"(sum0), "+x"(sum1), "=&x"(pixel), "=&x"(product)
        : "m"(*reinterpret_cast<const std::uint8_t(*)[4]>(x)), "x"(w0), "x"(w1));
  else
    __asm__(
        "vpbroadcastd %4, %2\n\t"
        "vpmaddwd %5, %2, %3\n\t"
        "vpmaddwd %6, %2, %2\n\t"
        "vpaddd %3, %0, %0\n\t"
        "vpaddd %2, %1, %1"
        : "+x"(sum0), "+x"(sum1), "=&x"(pixel), "=&x"(product)
        : "m"(*reinterpret_cast<const std::uint8_t(*)[4]>(x)), "x"(w0), "x"(w1));
}

/// Ones of 16 bits. An array, since nvcc 13.0 makes an int of sum_vec<8>{} in a constexpr variable.
alignas(32) inline constexpr std::int32_t one_and_one[8] = {0x10001, 0x10001, 0x10001, 0x10001,
                                                            0x10001, 0x10001, 0x10001, 0x10001};

/// to <- from + the sums of 16 bits of each lane. Constants stay in memory: a register more, for
/// a loop's invariant, would move sums there instead.
[[gnu::always_inline]] inline void widen_sums(sum_vec<8> sums, const std::int32_t* from,
                                              std::int32_t* to) {
  using lanes = const std::int32_t(*)[8];
  __asm__(
      "vpmaddwd %1, %0, %0\n\t"
      "vpaddd %2, %0, %0"
      : "+x"(sums)
      : "m"(one_and_one), "m"(*reinterpret_cast<lanes>(from)));
  store<std::int32_t, 8>(to, sums);
}

/// Stores the sums of pixel t and block b.
template <ByteConvolutionOutput Out>
[[gnu::always_inline]] inline void store_pair_sum(const pair_tile<Out>& at, int b, int t,
                                                  std::ptrdiff_t scale, const sum_vec<8>& sum) {
  Out* const y = at.y + b * at.y_block + t * 8;
  if constexpr (std::same_as<Out, float>)
    store<float, 8>(
        y, load<float, 8>(at.scales + scale) * __builtin_convertvector(sum, vec<float, 8>));
  else
    store<std::int32_t, 8>(y, sum);
}

/// Both blocks of filters; a single one is computed twice, with w_block = y_block = 0.
template <bool Short, ByteConvolutionOutput Out>
[[gnu::noinline]] void pair_sums(pair_tile<Out>& at) {
  constexpr int V = 8;
  const std::ptrdiff_t next = at.w_block == 0 ? 0 : V;  // the second block's terms
  const std::uint8_t *const x0 = at.pixels[0], *const x1 = at.pixels[1], *const x2 = at.pixels[2],
                            *const x3 = at.pixels[3], *const x4 = at.pixels[4],
                            *const x5 = at.pixels[5];
  const std::int8_t *w0 = at.w, *w1 = w0 + at.w_block;
  constexpr int unrolled = Short ? 2 : 4;
  const std::ptrdiff_t whole = at.steps / unrolled * unrolled * 4, rest = at.steps * 4 - whole;
  std::ptrdiff_t row = 0;
  int rows_left = at.blocks * at.rows, rows_of_block = at.rows;
  [[maybe_unused]] std::int32_t wide[std::size_t{2 * pair_tile_pixels * V}];  // with Short
  do {
    const bool first = row == 0;
    // No array, which compilers would leave in memory.
    sum_vec<V> a0, a1, a2, a3, a4, a5, b0, b1, b2, b3, b4, b5;
    const auto for_each_sum = [&](const auto& f) __attribute__((always_inline)) {
      f(0, 0, a0), f(0, 1, a1), f(0, 2, a2), f(0, 3, a3), f(0, 4, a4), f(0, 5, a5);
      f(1, 0, b0), f(1, 1, b1), f(1, 2, b2), f(1, 3, b3), f(1, 4, b4), f(1, 5, b5);
    };
    for_each_sum([&](int b, int, sum_vec<V>& sum) __attribute__((always_inline)) {
      if constexpr (Short)
        __asm__ volatile("vpxor %0, %0, %0" : "=x"(sum));
      else
        sum = load<std::int32_t, V>(at.initial + b * next);
    });
    int n = rows_left;
    if constexpr (Short) n = std::min(n, at.rows_at_once);
    rows_left -= n;
    do {
      for (int k = 0; k < at.prefetch_lines; ++k, at.prefetch += 64)
        __builtin_prefetch(at.prefetch, 0, 2);
      std::ptrdiff_t i = row;  // of all pixels: compilers would add it to each address
      const auto add = [&](int k) __attribute__((always_inline)) {
        const auto a = load<std::int8_t, 4 * V>(w0 + k * 4 * V),
                   b = load<std::int8_t, 4 * V>(w1 + k * 4 * V);
        add_pair<Short>(a0, b0, x0 + i + 4 * k, a, b);
        add_pair<Short>(a1, b1, x1 + i + 4 * k, a, b);
        add_pair<Short>(a2, b2, x2 + i + 4 * k, a, b);
        add_pair<Short>(a3, b3, x3 + i + 4 * k, a, b);
        add_pair<Short>(a4, b4, x4 + i + 4 * k, a, b);
        add_pair<Short>(a5, b5, x5 + i + 4 * k, a, b);
      };
      for (const std::ptrdiff_t end = i + whole; i != end; i += 4 * unrolled) {
        __asm__("" : "+r"(i));
        add(0);
        add(1);
        if constexpr (unrolled == 4) {
          add(2);
          add(3);
        }
        w0 += unrolled * 4 * V;
        w1 += unrolled * 4 * V;
      }
      for (const std::ptrdiff_t end = i + rest; i != end; i += 4, w0 += 4 * V, w1 += 4 * V) {
        __asm__("" : "+r"(i));
        add(0);
      }
      row += at.x_row;
      if (--rows_of_block == 0) {
        rows_of_block = at.rows;
        row += at.x_block - at.rows * at.x_row;
      }
    } while (--n > 0);
    for_each_sum([&](int b, int t, const sum_vec<V>& sum) __attribute__((always_inline)) {
      std::int32_t* const all = wide + (b * pair_tile_pixels + t) * V;
      if constexpr (Short)
        widen_sums(sum, first ? at.initial + b * next : all, all);
      else
        store_pair_sum(at, b, t, b * next, sum);
    });
  } while (rows_left > 0);
  if constexpr (Short)
    for (int b = 0; b < 2; ++b)
      for (int t = 0; t < pair_tile_pixels; ++t)
        store_pair_sum(at, b, t, b * next,
                       load<std::int32_t, V>(wide + (b * pair_tile_pixels + t) * V));
}

/// The sums of pair_sums<false>, whose addresses are constants of the instructions here.
template <ByteConvolutionOutput Out>
[[gnu::noinline]] void pair_panels(const byte_tile<Out>& all, bool two_blocks, int panels) {
  constexpr int V = 8, most = pair_tile_pixels, size = 2 * V;  // bytes of a pixel
  pair_tile<Out> at{all, {}};
  if (!two_blocks) at.w_block = at.y_block = 0;
  const std::ptrdiff_t next = two_blocks ? V : 0;  // the second block's terms
  const std::uint8_t* x = at.x;
  for (int panel = 0; panel < panels; ++panel, at.y += most * V) {
    const auto initial = [&](int b) __attribute__((always_inline)) {
      return load<std::int32_t, V>(at.initial + b * next);
    };
    sum_vec<V> a0 = initial(0), a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0, b0 = initial(1),
               b1 = b0, b2 = b0, b3 = b0, b4 = b0, b5 = b0;
    const std::int8_t *w0 = at.w, *w1 = w0 + at.w_block;
    for (int c = at.blocks; c > 0; --c, x += most * size, w0 += 16 * V, w1 += 16 * V) {
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
        const auto a = load<std::int8_t, 4 * V>(w0 + k * 4 * V),
                   b = load<std::int8_t, 4 * V>(w1 + k * 4 * V);
        add_pair<false>(a0, b0, x + 4 * k, a, b);
        add_pair<false>(a1, b1, x + 4 * k + size, a, b);
        add_pair<false>(a2, b2, x + 4 * k + 2 * size, a, b);
        add_pair<false>(a3, b3, x + 4 * k + 3 * size, a, b);
        add_pair<false>(a4, b4, x + 4 * k + 4 * size, a, b);
        add_pair<false>(a5, b5, x + 4 * k + 5 * size, a, b);
      }
    }
    const auto store_both = [&](int t, const sum_vec<V>& a, const sum_vec<V>& b)
        __attribute__((always_inline)) {
      store_pair_sum(at, 0, t, 0, a);
      store_pair_sum(at, 1, t, next, b);
    };
    store_both(0, a0, b0), store_both(1, a1, b1), store_both(2, a2, b2);
    store_both(3, a3, b3), store_both(4, a4, b4), store_both(5, a5, b5);
  }
}

template <bool Short, ByteConvolutionOutput Out>
void pair_tiles(const byte_tile<Out>& all, bool two_blocks, int first, int pixels, int length,
                std::ptrdiff_t pitch) {
  constexpr int V = 8, most = pair_tile_pixels;
  pair_tile<Out> at{all, {}};
  if (!two_blocks) at.w_block = at.y_block = 0;
  Out few[std::size_t{2 * most * V}];  // (2, most, V)
  if (pixels < most) {
    at.y = few;
    at.y_block = most * V;
  }
  for (int done = 0; done < pixels; done += most) {
    const int begin = std::max(0, std::min(done, pixels - most));
    int j = (first + begin) % length;
    const std::uint8_t* x = all.x + (first + begin) / length * pitch + j * all.x_step;
    for (int t = 0; t < most; ++t) {
      at.pixels[t] = x;
      if (begin + t >= pixels - 1) continue;
      x += all.x_step;
      if (++j == length) x += pitch - length * all.x_step, j = 0;
    }
    if (pixels >= most) at.y = all.y + begin * V;
    pair_sums<Short>(at);
  }
  if (pixels < most)
    for (int b = 0; b <= int{two_blocks}; ++b)
      std::copy_n(few + b * most * V, pixels * V, all.y + b * all.y_block);
}

template <ByteConvolutionOutput Out>
void pair_panels_of(const byte_tile<Out>& all, bool two_blocks, int first, int pixels,
                    std::ptrdiff_t pitch) {
  constexpr int size = pair_tile_pixels;
  const int end = first + pixels, begin = std::min((first + size - 1) / size * size, end),
            whole = (end - begin) / size;
  const auto from = [&](int pixel) {
    byte_tile<Out> tile = all;
    tile.y += std::ptrdiff_t{pixel - first} * 8;
    return tile;
  };
  const auto part_of_panel = [&](int pixel, int count) {
    if (count > 0) pair_tiles<false>(from(pixel), two_blocks, pixel, count, size, pitch);
  };
  part_of_panel(first, begin - first);
  byte_tile<Out> panels = from(begin);
  panels.x += begin / size * pitch;
  pair_panels(panels, two_blocks, whole);
  part_of_panel(begin + whole * size, end - begin - whole * size);
}
#endif

}  // namespace cordee::inline CORDEE_ABI::detail::ops
