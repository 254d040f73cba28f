// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The weight gradient as a product of matrices, in parts over the pixels:
//
//   part[s, k, m] = sum over pixels j of part s of  x[j under tap(m), c(m)] dy[j, k]
//   dw[k, c, r, s] = sum over s, ascending, of  part[s, k, m],   m = (r, s, c)
//
// How many parts there are follows from the layer and the samples alone, so the bits do. Lines in
// shared memory are pixels, and fragments are read across them.
#pragma once

#include <algorithm>

#include <cordee/ops/grid/packing.hpp>
#include <cordee/ops/grid/wmma/number.hpp>
#include <cordee/ops/grid/wmma/sweep.hpp>
#include <cordee/ops/grid/wmma/tile.hpp>

namespace cordee::inline CORDEE_ABI::detail {

/// Output pixels, so many apart, without divisions.
struct pixel_walk {
  int sample, row, column;

  CORDEE_HOST_DEVICE constexpr pixel_walk(int pixel, int rows, int columns)
      : sample(pixel / columns / rows), row(pixel / columns % rows), column(pixel % columns) {}
  CORDEE_HOST_DEVICE constexpr void advance(const pixel_walk& by, int rows, int columns) {
    column += by.column;
    const int carry = column >= columns ? 1 : 0;
    column -= carry * columns;
    row += by.row + carry;
    const int over = row >= rows ? 1 : 0;
    row -= over * rows;
    sample += by.sample + over;
  }
};

/// The factors of a block's tile: of each pixel 128 terms of its window, and some filters.
template <class N, class Tile, class Before>
class window_source {
  static constexpr int size = wmma_copy<N>, pixels = Tile::step_bytes / static_cast<int>(sizeof(N));
  static constexpr int row_copies = Tile::rows / size, column_copies = Tile::columns / size;
  static constexpr int rows_at_once = Tile::threads / row_copies,
                       columns_at_once = Tile::threads / column_copies;
  static constexpr int row_pitch = Tile::rows * static_cast<int>(sizeof(N)) + 16,
                       column_pitch = Tile::columns * static_cast<int>(sizeof(N)) + 16;
  static constexpr int row_bytes = pixels * row_pitch;
  static constexpr int rows_each = pixels / rows_at_once, columns_each = pixels / columns_at_once;

 public:
  static constexpr int stage_bytes = row_bytes + pixels * column_pitch;

  CORDEE_DEVICE window_source(const sweep& at, const N* x, const N* dy, const Before& before,
                              int first_term, int first_filter, int first_pixel, int last_pixel,
                              int thread)
      : at_(at),
        x_(x),
        dy_(dy),
        before_(before),
        column_(thread % row_copies),
        line_(thread / row_copies),
        pixel_(first_pixel + line_),
        last_(last_pixel),
        filter_(first_filter + thread % column_copies * size),
        filter_pixel_(first_pixel + thread / column_copies),
        filter_at_(row_bytes + thread / column_copies * column_pitch + thread % column_copies * 16),
        step_(pixels, at.down.out, at.across.out),
        walk_(pixel_, at.down.out, at.across.out),
        settled_pixel_(pixel_),
        settled_(walk_) {
    const int term = first_term + column_ * size, tap = term / at.channels;
    inside_ = term < at.terms();
    channel_ = term % at.channels;
    down_ = at.down.begin + tap / at.window;
    across_ = at.across.begin + tap % at.window;
  }

  template <class Block>
  CORDEE_DEVICE void fetch(Block& b, std::byte* stage) {
    each(walk_, pixel_, stage, [&](std::byte* to, const N* from, bool there) {
      before_.copy(b, to, there ? from : x_, there);
    });
    for (int i = 0; i < columns_each; ++i) {
      const int pixel = filter_pixel_ + i * columns_at_once;
      const bool there = pixel < last_ && filter_ < at_.filters;
      b.copy_async(stage + filter_at_ + i * columns_at_once * column_pitch,
                   there ? dy_ + std::ptrdiff_t{pixel} * at_.filters + filter_ : dy_, there);
    }
    filter_pixel_ += pixels;
  }

  CORDEE_DEVICE void settle(std::byte* stage) {
    if constexpr (Before::changes)
      each(settled_, settled_pixel_, stage, [&](std::byte* to, const N*, bool there) {
        if (there) before_.change(channel_, to);
      });
  }

  template <class Block>
  CORDEE_DEVICE void rows(Block& b, fragment& f, const std::byte* stage, int line, int k) const {
    b.load_across(f, stage + k * fragment::lines * row_pitch + line * static_cast<int>(sizeof(N)),
                  row_pitch);
  }
  template <class Block>
  CORDEE_DEVICE void columns(Block& b, fragment& f, const std::byte* stage, int line, int k) const {
    b.load_across(
        f,
        stage + row_bytes + k * fragment::lines * column_pitch + line * static_cast<int>(sizeof(N)),
        column_pitch);
  }

 private:
  /// f(place in the stage, place in x, is it there?) for this thread's pixels of a step.
  template <class F>
  CORDEE_DEVICE void each(pixel_walk& from, int& pixel, std::byte* stage, const F& f) const {
    const pixel_walk apart(rows_at_once, at_.down.out, at_.across.out);
    pixel_walk at = from;
    for (int i = 0; i < rows_each; ++i) {
      const int h = at.row * at_.down.stride + down_, l = at.column * at_.across.stride + across_;
      const bool there = inside_ && pixel + i * rows_at_once < last_ && h >= 0 && h < at_.down.in &&
                         l >= 0 && l < at_.across.in;
      const std::ptrdiff_t sample = std::ptrdiff_t{at.sample} * at_.down.in * at_.across.in;
      f(stage + (line_ + i * rows_at_once) * row_pitch + column_ * 16,
        x_ + (sample + h * at_.across.in + l) * at_.channels + channel_, there);
      at.advance(apart, at_.down.out, at_.across.out);
    }
    from.advance(step_, at_.down.out, at_.across.out);
    pixel += pixels;
  }

  const sweep& at_;
  const N *x_, *dy_;
  const Before& before_;
  int column_, line_, pixel_, last_, filter_, filter_pixel_, filter_at_;
  pixel_walk step_, walk_;
  int settled_pixel_;
  pixel_walk settled_;
  int channel_ = 0, down_ = 0, across_ = 0;
  bool inside_ = false;
};

/// A block makes 128 terms of some filters, of one part of the pixels.
template <class N, class Tile, class Before>
struct weight_gradient_body {
  using words = typename wmma_number<N>::words;
  using source = window_source<N, Tile, Before>;
  static constexpr int threads = Tile::threads;
  static constexpr int pixels = Tile::step_bytes / static_cast<int>(sizeof(N));  // of a step

  sweep at;
  const N *x, *dy;
  Before before;
  float* part;
  int steps;  // of a part

  [[nodiscard]] static constexpr std::size_t shared_bytes() {
    return std::size_t{Tile::stages} * source::stage_bytes;
  }

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    std::byte* const memory = b.template shared<std::byte>(shared_bytes());
    const int down = (at.terms() + Tile::rows - 1) / Tile::rows,
              across = (at.filters + Tile::columns - 1) / Tile::columns;
    const int block = static_cast<int>(b.index()), tile = block % (down * across),
              number = block / (down * across);
    const int first_term = tile / across * Tile::rows, first_filter = tile % across * Tile::columns;
    const int first = number * steps * pixels,
              last = std::min(first + steps * pixels, static_cast<int>(at.pixels()));
    source from(at, x, dy, before, first_term, first_filter, first, last, b.thread());
    warp_tile<Tile, words> mine(b.thread());
    mine.multiply(b, (last - first + pixels - 1) / pixels, from, memory);
    mine.each([&](int row, int column, float sum) {
      const int term = first_term + row, filter = first_filter + column;
      if (term < at.terms() && filter < at.filters)
        part[(std::ptrdiff_t{number} * at.filters + filter) * at.terms() + term] = sum;
    });
  }
};

/// dw, in canonical order, of the parts.
template <std::floating_point Real>
struct add_parts_at {
  krsc from_place;
  const float* part;
  std::size_t parts;
  Real* dw;
  into how;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    const std::size_t from = from_place.of(static_cast<unsigned>(i)), apart = from_place.size();
    float sum = 0;
    for (std::size_t s = 0; s < parts; ++s) sum += part[s * apart + from];
    dw[i] = static_cast<Real>(sum) + (how == into::add ? dw[i] : Real{0});
  }
};

/// The steps of a part, of `all`, such that some blocks are there for each multiprocessor and each
/// has enough to do.
constexpr int steps_of_part(std::size_t all, std::size_t tiles) {
  constexpr std::size_t enough_blocks = 512, fewest = 16;
  const std::size_t parts = std::max<std::size_t>(1, std::min(enough_blocks / tiles, all / fewest));
  return static_cast<int>(blocks_for(all, parts));
}

}  // namespace cordee::inline CORDEE_ABI::detail
