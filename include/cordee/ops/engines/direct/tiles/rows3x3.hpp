// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The 3x3 window of padding 1, where networks spend their time: the three taps of a window row at
// once, on the input in place.
//
//   y[v] += sum over s of x[t] w[s]   for   v In + s = t Out + Out - 1
//
// In is the stride of a forward pass, Out that of an input gradient (whose w[s] is the last tap
// first); one of them is 1. Where the weights of three taps fit into registers beside the sums, a
// loaded pixel is added to up to three sums, so loads are a third of the products; elsewhere the
// taps follow one another, since more sums hide more latency. Neither stride nor padding needs a
// copy of the rows: columns outside the image are read from a pixel of zeros, without a branch in
// the loop. The next rows are prefetched, a cache line or two with each channel; rows of an image
// of few channels have so few products that they are prefetched from further ahead.
#pragma once

#include <cordee/ops/engines/direct/tiles/tile.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Not const: the compiler would replace the loads by a branch.
template <class Real, int V>
alignas(64) inline Real zero_pixel[std::size_t{V}] = {};

/// Pixels of x that a tile of `pixels` reads, from the one left of it (forwards).
constexpr int pixels_under(int pixels, int in, int out) {
  return ((pixels - 1) * in + 3 - out) / out + 1;
}

/// Tiles of one length, row below row. Pitch is the distance of x's pixels: V, or the channels of
/// an image.
template <class Real, int V, int Pitch, int Blocks, int In, int Out, int Pixels>
[[gnu::noinline]] void rows3x3(const row_tile<Real>& at, const tap* first, const tap* last) {
  static_assert(In == 1 || Out == 1);
  constexpr int under = pixels_under(Pixels, In, Out), before = Out == 1 ? 1 : 0;
  for (int i = 0; i < at.rows; ++i)
    for (int tile = 0; tile < at.tiles; ++tile) {
      const Real* const row = at.x + i * at.x_row + tile * Pixels * In / Out * Pitch;
      Real* const y = at.y + i * at.y_row + tile * Pixels * V;
      const bool left = at.left && tile == 0, right = at.right && tile == at.tiles - 1;
      tile_sums<Real, V, Blocks, Pixels> sum;
      load_sums<Real, V, Blocks, Pixels>(sum, at.add, y, at.y_block, V);
      int block = 0;  // of y, whose next row is prefetched
      const Real* next = y + (Pitch == V ? 1 : 2) * at.y_row;
      const auto add_products = [&](const tap& window_row) __attribute__((always_inline)) {
        const Real* const x = row + window_row.x;
        const Real* w = at.w + window_row.w;
        const Real* const head = left ? at.edge : x - Pitch;
        const Real* const tail = right ? at.edge : x + (under - 1 - before) * Pitch;
        const auto channel = [&](int c) __attribute__((always_inline)) {
          const auto weight_of = [ w, &at ](int s, int b) __attribute__((always_inline)) {
            return load<Real, V>(w + b * at.w_block + s * at.w_span);
          };
          w += V;
          const auto pixel = [&](int t) __attribute__((always_inline)) {
            return t == under - 1 ? tail : t == 0 && before > 0 ? head : x + (t - before) * Pitch;
          };
          const auto prefetch = [&]() __attribute__((always_inline)) {
            if (Pitch == V) __builtin_prefetch(x + at.x_row + c * V);
#pragma GCC unroll 2
            for (int line = 0; line < (Pitch == V ? 1 : 2); ++line, next += V)
              __builtin_prefetch(next, Pitch == V);
          };
          if constexpr (Blocks * (Pixels + 3) < (many_registers<Real, V> ? 32 : 16)) {
            vec<Real, V> weight[std::size_t{Blocks}][3];
#pragma GCC unroll 32
            for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 32
              for (int s = 0; s < 3; ++s) weight[b][s] = weight_of(s, b);
            compiler_barrier();
            prefetch();
#pragma GCC unroll 64
            for (int t = 0; t < under; ++t)
#pragma GCC unroll 32
              for (int s = 0; s < 3; ++s) {
                const int v = t * Out + Out - 1 - s;
                if (v >= 0 && v % In == 0 && v / In < Pixels)
#pragma GCC unroll 32
                  for (int b = 0; b < Blocks; ++b) sum[b][v / In] += pixel(t)[c] * weight[b][s];
              }
          } else {
            prefetch();
#pragma GCC unroll 32
            for (int s = 0; s < 3; ++s) {
              vec<Real, V> weight[std::size_t{Blocks}];
#pragma GCC unroll 32
              for (int b = 0; b < Blocks; ++b) weight[b] = weight_of(s, b);
              compiler_barrier();
#pragma GCC unroll 32
              for (int v = 0; v < Pixels; ++v) {
                const int t = v * In + s - Out + 1;
                if (t % Out == 0)
#pragma GCC unroll 32
                  for (int b = 0; b < Blocks; ++b) sum[b][v] += pixel(t / Out)[c] * weight[b];
              }
            }
          }
        };
        if constexpr (Pitch == V) {
          for (int c = 0; c < window_row.channels; ++c) channel(c);
          next = y + at.y_row + (block = block + 1 < Blocks ? block + 1 : 0) * at.y_block;
        } else {
#pragma GCC unroll 4
          for (int c = 0; c < Pitch; ++c) channel(c);
        }
      };
      for (const tap* t = first; t != last; ++t) {
        if (Pitch != V)  // three rows of so few channels that those of one are unrolled
          __builtin_prefetch(row + 8 * at.x_row + (t - first) * 64 / std::ptrdiff_t{sizeof(Real)});
        add_products(*t);
      }
      store_sums<Real, V, Blocks, Pixels>(sum, y, at.y_block, V);
    }
}

/// All pixels of the rows.
template <class Real, int V, int Pitch, int Blocks, int In, int Out>
void rows3x3_run(row_tile<Real> at, const tap* first, const tap* last) {
  // The weights take registers too. Backward through a stride a tile begins at an even pixel.
  constexpr bool many = many_registers<Real, V>;
  constexpr int widest = many ? (30 - 3 * Blocks) / Blocks : tile_registers<Real, V> / Blocks;
  using few = std::conditional_t<  // with 16 registers; an image's rows are long
      Out == 2, lengths<12, 8, 6, 2, 1>,
      std::conditional_t<Pitch != V, lengths<12, 8, 1>, tile_lengths<Real, V, Blocks>>>;
  using plenty = std::conditional_t<
      Out == 2, std::conditional_t<Blocks == 1, lengths<16, 14, 2, 1>, lengths<8, 6, 2, 1>>,
      std::conditional_t<
          Pitch != V, lengths<16, 14, 1>,
          std::conditional_t<Blocks == 1, lengths<16, 14, 8, 4, 1>, lengths<8, 7, 4, 1>>>>;
  using lengths_of = std::conditional_t<many, plenty, few>;
  const row_tile<Real> rows = at;
  for_tiles<widest>(lengths_of{}, rows.pixels, [&]<int Pixels>(int done, int tiles) {
    constexpr int under = pixels_under(Pixels, In, Out) - (Out == 1 ? 1 : 0);  // from x on
    const int from = done * In / Out, to = (done + (tiles - 1) * Pixels) * In / Out + under;
    at.tiles = tiles;
    at.x = rows.x + from * Pitch;
    at.y = rows.y + done * V;
    at.left = done == 0;
    at.right = to > rows.columns;
    rows3x3<Real, V, Pitch, Blocks, In, Out, Pixels>(at, first, last);
  });
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
