// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// byte_tile.hpp by products of small matrices, two pixels by two filters, eight channels at once
// (ops/engines/direct/tiles/matrix_product.hpp). Blocks of eight channels or more have the eight in
// a row. NEON's blocks have four, so there four channels of two blocks are multiplied at once; the
// second half's weights are zeros behind the last block of an odd number. The last pixel of an odd
// number is computed twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <cordee/ops/convolution_bytes.hpp>
#include <cordee/ops/engines/direct/int8/byte_tile.hpp>
#include <cordee/ops/engines/direct/tiles/matrix_product.hpp>
#include <cordee/ops/engines/direct/tiles/tile.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Blocks of channels that are multiplied at once.
template <int V>
inline constexpr int byte_blocks_at_once = V == 4 ? 2 : 1;

/// The bytes of a kind of products (byte_pair_tile.hpp).
template <bool Native>
struct matrix_products {
  using number = std::uint8_t;
  using weight = std::int8_t;
  static constexpr int panel = 0;
  static constexpr bool dots = false, short_sums = false, native = Native;
};

/// Four channels of two blocks, of four adjacent pixels: the first two, and the others.
struct four_pixels {
  using words = vec<std::uint32_t, 4>;

  [[gnu::always_inline]] four_pixels(const std::uint8_t* x, std::ptrdiff_t second) {
    words a, b, low, high;
    std::memcpy(&a, x, sizeof a);
    std::memcpy(&b, x + second, sizeof b);
#if defined(__aarch64__)
    __asm__("zip1 %0.4s, %1.4s, %2.4s" : "=w"(low) : "w"(a), "w"(b));
    __asm__("zip2 %0.4s, %1.4s, %2.4s" : "=w"(high) : "w"(a), "w"(b));
#else
    low = words{a[0], b[0], a[1], b[1]};
    high = words{a[2], b[2], a[3], b[3]};
#endif
    pair[0] = register_cast<channel_groups<4>>(low);
    pair[1] = register_cast<channel_groups<4>>(high);
  }
  channel_groups<4> pair[2];
};

/// Two pixels; `second` is the distance of the second block's channels.
template <int V>
[[gnu::always_inline]] inline channel_groups<V> byte_pixel_pair(const std::uint8_t* first,
                                                                const std::uint8_t* last,
                                                                std::ptrdiff_t second) {
  if constexpr (V > 4) {
    return pixel_pair<V>(first, last);
  } else {
    std::uint32_t four[4];
    std::memcpy(&four[0], first, 4);
    std::memcpy(&four[1], first + second, 4);
    std::memcpy(&four[2], last, 4);
    std::memcpy(&four[3], last + second, 4);
    return register_cast<channel_groups<V>>(
        vec<std::uint32_t, 4>{four[0], four[1], four[2], four[3]});
  }
}

/// at.w is (filter blocks, C/B or pairs of them, R, steps, V, 8 bytes). Adjacent: at.x_step is 4,
/// the bytes of a pixel in a block.
template <int V, bool Native, int Blocks, int Pixels, bool Adjacent, ByteConvolutionOutput Out>
[[gnu::noinline]] void byte_matrix_sums(byte_tile<Out>& at) {
  constexpr int pairs = (Pixels + 1) / 2, at_once = byte_blocks_at_once<V>;
  static_assert(!Adjacent || V == 4);
  sum_vec<V> sum[std::size_t{Blocks}][std::size_t{pairs}][2];
#pragma GCC unroll 32
  for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 32
    for (int p = 0; p < pairs; ++p)
      join_pixels<std::int32_t, V>(load<std::int32_t, V>(at.initial + b * V), sum[b][p][0],
                                   sum[b][p][1]);
  const std::ptrdiff_t step = Adjacent ? 4 : at.x_step;
  const std::int8_t* w = at.w;
  for (int c = 0; c < at.blocks; c += at_once)
    for (int r = 0; r < at.rows; ++r) {
      if (c == 0)
        for (int t = r; t < Pixels; t += at.rows)
#pragma GCC unroll 32
          for (int b = 0; b < Blocks; ++b)
            __builtin_prefetch(at.y + at.y_row + b * at.y_block + t * V, 1);
      for (int k = 0; k < at_once * at.prefetch_lines; ++k, at.prefetch += 64)
        __builtin_prefetch(at.prefetch, 0, 2);
      const std::uint8_t* x = at.x + c * at.x_block + r * at.x_row;
      const std::ptrdiff_t second = c + 1 < at.blocks ? at.x_block : 0;
      for (int i = 0; i < at.steps; ++i, w += 8 * V, x += 8 / at_once) {
        channel_groups<V> weight[std::size_t{Blocks}][2];
#pragma GCC unroll 32
        for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 2
          for (int h = 0; h < 2; ++h)
            std::memcpy(&weight[b][h], w + b * at.w_block + 4 * h * V, sizeof weight[b][h]);
        const auto add = [&](int p, const channel_groups<V>& pixels)
            __attribute__((always_inline)) {
#pragma GCC unroll 32
          for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 2
            for (int h = 0; h < 2; ++h)
              sum[b][p][h] =
                  byte_matrix_product<V, Native>::add(sum[b][p][h], pixels, weight[b][h]);
        };
#pragma GCC unroll 32
        for (int p = 0; p < pairs; ++p) {
          if constexpr (Adjacent)
            if (2 * p + 3 < Pixels) {
              const four_pixels four(x + 2 * p * step, second);
              add(p, four.pair[0]);
              add(++p, four.pair[1]);
              continue;
            }
          const std::uint8_t* const first = x + 2 * p * step;
          add(p, byte_pixel_pair<V>(first, 2 * p + 1 < Pixels ? first + step : first, second));
        }
      }
    }
#pragma GCC unroll 32
  for (int b = 0; b < Blocks; ++b) {
    [[maybe_unused]] vec<float, V> scale{};  // sums alone have none
    if constexpr (std::same_as<Out, float>) scale = load<float, V>(at.scales + b * V);
#pragma GCC unroll 32
    for (int p = 0; p < pairs; ++p) {
      separate_pixels<std::int32_t, V>(sum[b][p][0], sum[b][p][1]);
#pragma GCC unroll 2
      for (int t = 2 * p; t < 2 * p + 2; ++t)
        if (t < Pixels) {
          Out* const y = at.y + b * at.y_block + t * V;
          if constexpr (std::same_as<Out, float>)
            store<float, V>(y, scale * __builtin_convertvector(sum[b][p][t % 2], vec<float, V>));
          else
            store<std::int32_t, V>(y, sum[b][p][t % 2]);
        }
    }
  }
}

/// `rows` rows of y of `width` pixels each.
template <int V, bool Native, int Blocks, ByteConvolutionOutput Out>
void byte_matrix_rows(byte_tile<Out>& at, int rows, int width, int stride) {
  const byte_tile<Out> row = at;
  for_tiles<Blocks == 1 ? 16 : 8>(
      lengths<16, 8, 7, 4, 1>{}, width, [&]<int Pixels>(int done, int tiles) {
        auto* kernel = byte_matrix_sums<V, Native, Blocks, Pixels, false, Out>;
        if constexpr (V == 4)
          if (at.x_step == 4) kernel = byte_matrix_sums<V, Native, Blocks, Pixels, true, Out>;
        for (int i = 0; i < rows; ++i) {
          at.x = row.x + i * stride * row.x_row + done * row.x_step;
          at.y = row.y + i * row.y_row + done * V;
          for (int t = 0; t < tiles; ++t, at.x += Pixels * row.x_step, at.y += Pixels * V)
            kernel(at);
        }
      });
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
