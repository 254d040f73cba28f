// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// bfloat_tile.hpp and bfloat_rows3x3.hpp by products of small matrices
// (ops/engines/direct/tiles/matrix_product.hpp): pairs of pixels by pairs of filters, four channels
// at once. The packed weights have four channels of a filter together, (…, V, 4). The last pixel of
// an odd number is computed twice. The last four numbers of a window row are a group also if their
// number is no multiple of four: those that were in the group before, too, have zero weights here.
#pragma once

#include <cstddef>

#include <cordee/core/algorithm.hpp>
#include <cordee/ops/engines/direct/bf16/bfloat_rows3x3.hpp>
#include <cordee/ops/engines/direct/bf16/bfloat_tile.hpp>
#include <cordee/ops/engines/direct/tiles/matrix_product.hpp>
#include <cordee/ops/engines/direct/tiles/rows3x3.hpp>
#include <cordee/ops/engines/direct/tiles/tile.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The sums of pairs of pixels a distance apart, that of both registers of V filters each.
template <int V, int Blocks, int Pixels, int Distance = 1>
struct bfloat_pixel_pairs {
  static constexpr int most = (Pixels + Distance - 1) / Distance, pairs = (most + 1) / 2;

  /// The pair of pixels first(r, p) and second(r, p), which may be the same.
  static constexpr int first(int r, int p) { return r + 2 * p * Distance; }
  static constexpr int second(int r, int p) {
    return first(r, p) + (first(r, p) + Distance < Pixels ? Distance : 0);
  }

  template <bool Native>
  [[gnu::always_inline]] void store(bfloat* y, std::ptrdiff_t y_block, bool add) {
    tile_sums<float, V, Blocks, Pixels> pixels;
#pragma GCC unroll 32
    for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 2
      for (int r = 0; r < Distance; ++r)
#pragma GCC unroll 32
        for (int p = 0; p < pairs; ++p)
          if (first(r, p) < Pixels) {
            separate_pixels<float, V>(sum[b][r][p][0], sum[b][r][p][1]);
            pixels[b][second(r, p)] = sum[b][r][p][1];
            pixels[b][first(r, p)] = sum[b][r][p][0];
          }
    store_bfloat_tile<V, Native, Blocks, Pixels>(pixels, y, y_block, add);
  }

  vec<float, V> sum[std::size_t{Blocks}][std::size_t{Distance}][std::size_t{pairs}][2] = {};
};

/// Four channels of V / 2 filters.
template <int V>
[[gnu::always_inline]] inline channel_groups<V> load_filters(const bfloat* w) {
  return load<channel_group, V / 2>(reinterpret_cast<const channel_group*>(w));
}

/// bfloat_tile. Pixels of y are Step numbers of x apart, or where it is 0, x_step.
template <int V, bool Native, int Blocks, int Step, int Pixels>
void bfloat_matrix_tile(const bfloat_area& at) {
  using sums = bfloat_pixel_pairs<V, Blocks, Pixels>;
  const std::ptrdiff_t step = Step != 0 ? Step : at.x_step, numbers = at.row_numbers;
  sums all;
  const bfloat* w = at.w;
  for (int block = 0; block < at.blocks; ++block)
    for (int r = 0; r < at.rows; ++r) {
      const bfloat* const row = at.x + block * at.x_block + r * at.x_row;
      for (std::ptrdiff_t i = 0; i < numbers; i += 4, w += 4 * V) {
        const bfloat* const x = row + std::min(i, numbers - 4);
        channel_groups<V> weight[std::size_t{Blocks}][2];
#pragma GCC unroll 32
        for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 2
          for (int h = 0; h < 2; ++h)
            weight[b][h] = load_filters<V>(w + b * at.w_block + 2 * h * V);
#pragma GCC unroll 32
        for (int p = 0; p < sums::pairs; ++p) {
          constexpr bool adjacent = Step == 4;
          const auto first = x + sums::first(0, p) * step, second = x + sums::second(0, p) * step;
          const auto pixels = adjacent && first != second ? adjacent_pixels<V>(first)
                                                          : pixel_pair<V>(first, second);
#pragma GCC unroll 32
          for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 2
            for (int h = 0; h < 2; ++h)
              all.sum[b][0][p][h] =
                  bfloat_matrix_product<V, Native>::add(all.sum[b][0][p][h], pixels, weight[b][h]);
        }
      }
    }
  all.template store<Native>(at.y, at.y_block, at.add);
}

/// bfloat_rows3x3.
template <int V, bool Native, int Blocks, int In, int Out, int Pixels>
void bfloat_matrix_rows3x3(const bfloat_rows_area& at, int from) {
  static_assert(In == 1 || Out == 1);
  using sums = bfloat_pixel_pairs<V, Blocks, Pixels, Out>;
  constexpr int under = pixels_under(Pixels, In, Out), before = Out == 1 ? 1 : 0;
  constexpr std::ptrdiff_t line = 64 / sizeof(bfloat);  // of the cache
  sums all;
  for (int block = 0; block < at.blocks; ++block)
    for (int r = 0; r < at.window_rows; ++r) {
      const bfloat* const x = at.x[r] + block * at.x_block + std::ptrdiff_t{from} * V;
      const bfloat* const head = at.left ? zero_pixel<bfloat, V> : x - V;
      const bfloat* const tail = at.right ? zero_pixel<bfloat, V> : x + (under - 1 - before) * V;
      const bfloat* w = at.w[r] + block * at.w_block;
      const bfloat* const next_x = x + In * at.x_row;
      bfloat* const next_y = at.y + at.y_row + (block % Blocks) * at.y_block;
      for (int c = 0; c < V; c += 4, w += 4 * V) {
        __builtin_prefetch(next_x + c / 4 * line);
        __builtin_prefetch(next_y + c / 4 * line, 1);
        channel_groups<V> weight[std::size_t{Blocks}][3][2];
#pragma GCC unroll 32
        for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 3
          for (int s = 0; s < 3; ++s)
#pragma GCC unroll 2
            for (int h = 0; h < 2; ++h)
              weight[b][s][h] = load_filters<V>(w + b * at.w_filters + s * V * V + 2 * h * V);
        const auto pixel = [&](int t) __attribute__((always_inline)) {
          return (t == under - 1 ? tail : t == 0 && before > 0 ? head : x + (t - before) * V) + c;
        };
#pragma GCC unroll 2
        for (int rest = 0; rest < Out; ++rest)
#pragma GCC unroll 32
          for (int p = 0; p < sums::pairs; ++p)
#pragma GCC unroll 3
            for (int s = 0; s < 3; ++s) {
              const int first = sums::first(rest, p) * In + s + 1 - Out,  // times Out
                  second = sums::second(rest, p) * In + s + 1 - Out;
              if (sums::first(rest, p) >= Pixels || first % Out != 0) continue;
              const bool adjacent = In == 1 && V == 4 && second > first && first / Out >= before &&
                                    second / Out < under - 1;
              const auto pixels = adjacent ? adjacent_pixels<V>(pixel(first / Out))
                                           : pixel_pair<V>(pixel(first / Out), pixel(second / Out));
#pragma GCC unroll 32
              for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 2
                for (int h = 0; h < 2; ++h)
                  all.sum[b][rest][p][h] = bfloat_matrix_product<V, Native>::add(
                      all.sum[b][rest][p][h], pixels, weight[b][s][h]);
            }
      }
    }
  all.template store<Native>(at.y, at.y_block, at.add);
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
