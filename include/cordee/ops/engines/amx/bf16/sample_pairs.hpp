// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Copies of x and dy for wgrad of engine `amx`: a word has the same number of two samples, the
// first in its low half. A missing sample is zero. What lies where, amx_gradient_plan says.
//
// A block of 32 channels becomes two tiles, of its even and of its odd channels: so each needs two
// operations for 16 words, none of which moves numbers between lanes. A block of 16 is one tile.
#pragma once

#include <cstddef>

#include <cordee/core/algorithm.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/engines/amx/tiles/correlation_plan.hpp>
#include <cordee/ops/engines/amx/tiles/weight_gradient_plan.hpp>
#include <cordee/ops/engines/direct/tiles/bfloat_dot.hpp>
#include <cordee/ops/layout.hpp>
#include <cordee/precision/bf16.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Words to a register, of at most a tile's row.
inline constexpr int tile_lanes = std::min(tile_rows, lanes<bfloat_pair>);

/// The first number of a sample, and of the next sample if there is one.
struct bfloat_samples {
  const bfloat *even, *odd = nullptr;

  [[nodiscard]] bfloat_samples at(std::ptrdiff_t offset) const {
    return {even + offset, odd == nullptr ? nullptr : odd + offset};
  }
};

/// L words of numbers i of both samples.
[[gnu::always_inline]] inline bfloat_pairs<tile_lanes> pair_of(const bfloat_samples& from,
                                                               std::ptrdiff_t i) {
  constexpr int L = tile_lanes;
  const auto high = [](const bfloat* at) __attribute__((always_inline)) {
    return register_cast<bfloat_pairs<L>>(load<bfloat, L>(at));
  };
  const bfloat_pairs<L> even = high(from.even + i) >> 16;
  return from.odd == nullptr ? even : even | high(from.odd + i);
}
/// to[i] = numbers i of both samples
inline void pair_numbers(const bfloat_samples& from, std::ptrdiff_t n, bfloat_pair* to) {
  constexpr int L = tile_lanes;
  std::ptrdiff_t i = 0;
  for (; i + L <= n; i += L) store<bfloat_pair, L>(to + i, pair_of(from, i));
  for (; i < n; ++i)
    to[i] = from.even[i].bits |
            (from.odd != nullptr ? bfloat_pair{from.odd[i].bits} << 16 : bfloat_pair{});
}

/// The 16 or 32 channels of a pixel as 16 words, or as 16 words of the even ones and 16 of the odd
/// ones.
template <int Channels>
[[gnu::always_inline]] inline void pair_channels(const bfloat_samples& from, bfloat_pair* first,
                                                 bfloat_pair* second) {
  constexpr int L = tile_lanes;
  const auto two = [](const bfloat* at) __attribute__((always_inline)) {
    return load<bfloat_pair, L>(reinterpret_cast<const bfloat_pair*>(at));  // channels
  };
#pragma GCC unroll 4
  for (int i = 0; i < tile_rows; i += L)
    if constexpr (Channels == 16) {
      store<bfloat_pair, L>(first + i, pair_of(from, i));
    } else {
      const bfloat_pairs<L> a = two(from.even + 2 * i),
                            b = from.odd != nullptr ? two(from.odd + 2 * i) : bfloat_pairs<L>{};
      store<bfloat_pair, L>(first + i, (a & 0xffffu) | b << 16);
      store<bfloat_pair, L>(second + i, a >> 16 | (b & 0xffff0000u));
    }
}

/// to[k][q] = from[q][k], for 16 x 16 words.
inline void transpose_tile(const bfloat_pair* from, bfloat_pair* to) {
  constexpr int L = tile_lanes;
  for (int q = 0; q < tile_rows; q += L)
    for (int k = 0; k < tile_rows; k += L) {
      bfloat_pairs<L> square[std::size_t{L}];
#pragma GCC unroll 16
      for (int i = 0; i < L; ++i) square[i] = load<bfloat_pair, L>(from + (q + i) * tile_rows + k);
      transpose<bfloat_pair, L>(square);
#pragma GCC unroll 16
      for (int i = 0; i < L; ++i) store<bfloat_pair, L>(to + (k + i) * tile_rows + q, square[i]);
    }
}

/// Samples of an extent in blocks of channels, in pairs.
struct bfloat_batch {
  bfloat_batch(const extent& e, const bfloat* x_, int samples_)
      : in(e), block(tile_block_size(e.channels)), x(x_), samples(samples_) {}

  /// Row h of a block of channels, in both samples of a pair.
  [[nodiscard]] bfloat_samples row(int pair, int channel_block, int h) const {
    const auto size = static_cast<std::ptrdiff_t>(sample_size(in, block));
    const bfloat* const even =
        x + 2 * pair * size + (std::ptrdiff_t{channel_block} * in.height + h) * in.width * block;
    return {even, 2 * pair + 1 < samples ? even + size : nullptr};
  }

  extent in;
  int block;        // B
  const bfloat* x;  // (samples, C/B, H, W, B)
  int samples;
};

/// Writes the planes of channel tiles first .. last-1 of a chunk.
class pair_planes {
 public:
  pair_planes(const amx_gradient_plan& plan, const amx_gradient_plan::chunk& c)
      : plan_(plan), c_(c), plane_(plan.plane_words(c)) {}

  void write(const bfloat_batch& x, int first, int last,
             bfloat_pair* planes) const {  // (tiles, row_planes, column_planes, plane_words)
    const std::ptrdiff_t tile = plan_.planes_words(1, c_);
    if (plan_.image)
      write_rows(1, planes, 0, [&](int pair, int h, int, bfloat_pair* to, std::ptrdiff_t) {
        write_image_row(x.row(pair, 0, h), to);
      });
    else if (x.block == 32)
      for (int i = first; i < last; i += 2, planes += 2 * tile)
        write_block<32>(x, i / 2, planes, tile);
    else
      for (int i = first; i < last; ++i, planes += tile) write_block<16>(x, i, planes, 0);
  }

 private:
  [[nodiscard]] std::ptrdiff_t row_words() const {
    return std::ptrdiff_t{plan_.pitch} * plan_.position_words();
  }
  static void zero(bfloat_pair* to, std::ptrdiff_t n) { std::fill_n(to, n, bfloat_pair{}); }

  /// f(pair, row of x, column plane, first word, distance of the second tile) for the rows that lie
  /// in the image; the others, and what is behind the last, are zero.
  template <class F>
  void write_rows(int tiles, bfloat_pair* to, std::ptrdiff_t tile, const F& f) const {
    const convolution_problem& p = plan_.layer;
    const auto zero_tiles = [&](bfloat_pair* at, std::ptrdiff_t n) {
      for (int i = 0; i < tiles; ++i) zero(at + i * tile, n);
    };
    for (int a = 0; a < plan_.row_planes; ++a)
      for (int b = 0; b < plan_.column_planes; ++b, to += plane_) {
        bfloat_pair* row = to;
        for (int i = c_.first_row; i < c_.first_row + c_.rows + plan_.row_reach; ++i)
          for (int n = 0; n < c_.pairs; ++n, row += row_words()) {
            const int h = i * p.stride + a - p.padding;
            if (h >= 0 && h < p.in.height)
              f(c_.first_pair + n, h, b, row, tile);
            else
              zero_tiles(row, row_words());
          }
        zero_tiles(row, to + plane_ - row);
      }
  }
  template <int Channels>
  void write_block(const bfloat_batch& x, int block, bfloat_pair* planes,
                   std::ptrdiff_t tile) const {
    write_rows(Channels / 16, planes, tile,
               [&](int pair, int h, int b, bfloat_pair* to, std::ptrdiff_t second) {
                 const bfloat_samples row = x.row(pair, block, h);
                 write_pixels(b, to, second, [&](int column, bfloat_pair* pixel) {
                   pair_channels<Channels>(row.at(column * Channels), pixel, pixel + second);
                 });
               });
  }
  /// f(column of x, words) for the positions of a row of column plane b that lie in the image.
  template <class F>
  void write_pixels(int b, bfloat_pair* to, std::ptrdiff_t odd, const F& f) const {
    const convolution_problem& p = plan_.layer;
    const auto position_of = [&](int column) {  // the first at `column` or to the right of it
      return std::clamp((column + p.padding - b + p.stride - 1) / p.stride, 0, plan_.pitch);
    };
    const auto zero_positions = [&](int from, int end) {
      zero(to + from * tile_rows, (end - from) * tile_rows);
      if (odd != 0) zero(to + odd + from * tile_rows, (end - from) * tile_rows);
    };
    const int first = b > p.padding ? 0 : position_of(0),
              last = std::max(first, b >= p.in.width + p.padding ? 0 : position_of(p.in.width));
    zero_positions(0, first);
    for (int j = first; j < last; ++j)
      f(j * p.stride + b - p.padding, to + std::ptrdiff_t{j} * tile_rows);
    zero_positions(last, plan_.pitch);
  }
  void write_image_row(const bfloat_samples& row, bfloat_pair* to) const {
    const convolution_problem& p = plan_.layer;
    const std::ptrdiff_t C = p.in.channels, size = row_words(),
                         left = std::min(size, p.padding * C),
                         end = std::min(size, left + p.in.width * C);
    zero(to, left);
    pair_numbers(row, end - left, to + left);
    zero(to + end, size - end);
  }

  const amx_gradient_plan& plan_;
  amx_gradient_plan::chunk c_;
  std::ptrdiff_t plane_;
};

/// One block of Channels filters of dy, transposed: rows of 16 positions of a filter.
template <int Channels>
void transpose_block(const amx_gradient_plan& plan, const amx_gradient_plan::chunk& c,
                     const bfloat_batch& dy, int block, bfloat_pair* first, bfloat_pair* second) {
  constexpr int tile = tile_rows * tile_rows;
  alignas(64) bfloat_pair positions[2 * tile] = {};  // (2, 16 positions, 16 filters)
  int filled = 0;
  const auto advance = [&]() __attribute__((always_inline)) {
    if (++filled < tile_rows) return;
    transpose_tile(positions, first);
    first += tile;
    if constexpr (Channels == 32) {
      transpose_tile(positions + tile, second);
      second += tile;
    }
    filled = 0;
  };
  const auto put_zeros = [&](int n) {
    for (; n > 0; --n) {
      for (const int of_half : {0, tile})
        std::fill_n(positions + of_half + filled * tile_rows, tile_rows, bfloat_pair{});
      advance();
    }
  };
  for (int i = c.first_row; i < c.first_row + c.rows; ++i)
    for (int n = c.first_pair; n < c.first_pair + c.pairs; ++n) {
      const bfloat_samples row = dy.row(n, block, i);
      for (int j = 0; j < plan.out.width; ++j) {
        bfloat_pair* const to = positions + filled * tile_rows;
        if constexpr (Channels >= 16)
          pair_channels<Channels>(row.at(j * Channels), to, to + tile);
        else  // the words behind few filters stay zero
          pair_numbers(row.at(j * dy.block), dy.block, to);
        advance();
      }
      put_zeros(plan.pitch - plan.out.width);
    }
  put_zeros((tile_rows - filled) % tile_rows);
}
/// Writes filter tiles first .. last-1 of dy, transposed.
inline void transpose_gradient(const amx_gradient_plan& plan, const amx_gradient_plan::chunk& c,
                               const bfloat_batch& dy, int first, int last,
                               bfloat_pair* tiles) {  // (tiles, steps, 16 filters, 16 positions)
  const std::ptrdiff_t tile = plan.gradient_words(1, c);
  if (dy.block == 32)
    for (int k = first; k < last; k += 2, tiles += 2 * tile)
      transpose_block<32>(plan, c, dy, k / 2, tiles, tiles + tile);
  else if (dy.block == 16)
    for (int k = first; k < last; ++k, tiles += tile)
      transpose_block<16>(plan, c, dy, k, tiles, nullptr);
  else
    transpose_block<1>(plan, c, dy, 0, tiles, nullptr);
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
