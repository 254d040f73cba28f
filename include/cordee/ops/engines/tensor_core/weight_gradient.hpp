// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The weight gradient as a matrix product, split over the pixels (split-K):
//
//   partial[s, k, m] = sum over pixels j of split s of  x[j at tap(m), c(m)] dy[j, k]
//   dw[k, c, r, s]   = sum over splits, ascending, of  partial[split, k, m]        m = (r, s, c)
//
// The number of splits depends on the layer and the number of samples alone, so the result's bits
// do. Rows in shared memory are pixels, which is K here: fragments are read transposed.
#pragma once

#include <algorithm>

#include <cordee/ops/engines/tensor_core/implicit_gemm.hpp>
#include <cordee/ops/engines/tensor_core/mma_type.hpp>
#include <cordee/ops/engines/tensor_core/tile.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// An output pixel as (sample, row, column), advanced without division.
struct pixel_position {
  int sample, row, column;

  CORDEE_HOST_DEVICE constexpr pixel_position(int pixel, int rows, int columns)
      : sample(pixel / columns / rows), row(pixel / columns % rows), column(pixel % columns) {}
  CORDEE_HOST_DEVICE constexpr void advance(const pixel_position& by, int rows, int columns) {
    column += by.column;
    const int carry = column >= columns ? 1 : 0;
    column -= carry * columns;
    row += by.row + carry;
    const int over = row >= rows ? 1 : 0;
    row -= over * rows;
    sample += by.sample + over;
  }
};

/// Loads the K steps of a block's tile. A stage is, for each pixel of the K step, Tile::rows
/// numbers of x under the filter window, `a_pitch` bytes apart, then Tile::columns of dy, `b_pitch`
/// apart.
template <class N, class Tile, class Prologue>
class wgrad_loader {
  static constexpr int numbers = numbers_per_copy<N>,
                       pixels = Tile::step_bytes / static_cast<int>(sizeof(N));
  static constexpr int a_copies = Tile::rows / numbers, b_copies = Tile::columns / numbers;
  static constexpr int a_rows_per_pass = Tile::threads / a_copies,
                       b_rows_per_pass = Tile::threads / b_copies;
  static constexpr int a_pitch = Tile::rows * static_cast<int>(sizeof(N)) + 16,
                       b_pitch = Tile::columns * static_cast<int>(sizeof(N)) + 16;
  static constexpr int a_bytes = pixels * a_pitch;
  static constexpr int a_passes = pixels / a_rows_per_pass, b_passes = pixels / b_rows_per_pass;

 public:
  static constexpr int stage_bytes = a_bytes + pixels * b_pitch;

  CORDEE_DEVICE wgrad_loader(const implicit_gemm& g, const N* x, const N* dy,
                             const Prologue& prologue, int first_term, int first_filter,
                             int first_pixel, int last_pixel, int thread)
      : g_(g),
        x_(x),
        dy_(dy),
        prologue_(prologue),
        column_(thread % a_copies),
        row_(thread / a_copies),
        pixel_(first_pixel + row_),
        last_(last_pixel),
        filter_(first_filter + thread % b_copies * numbers),
        b_pixel_(first_pixel + thread / b_copies),
        b_offset_(a_bytes + thread / b_copies * b_pitch + thread % b_copies * 16),
        step_(pixels, g.down.out, g.across.out),
        position_(pixel_, g.down.out, g.across.out),
        transform_pixel_(pixel_),
        transform_position_(position_) {
    const int term = first_term + column_ * numbers, tap = term / g.channels;
    valid_ = term < g.depth();
    channel_ = term % g.channels;
    down_ = g.down.origin + tap / g.window;
    across_ = g.across.origin + tap % g.window;
  }

  template <class Block>
  CORDEE_DEVICE void fetch(Block& b, std::byte* stage) {
    for_each_row(position_, pixel_, stage, [&](std::byte* to, const N* from, bool valid) {
      prologue_.copy(b, to, valid ? from : x_, valid);
    });
    for (int i = 0; i < b_passes; ++i) {
      const int pixel = b_pixel_ + i * b_rows_per_pass;
      const bool valid = pixel < last_ && filter_ < g_.filters;
      b.copy_async(stage + b_offset_ + i * b_rows_per_pass * b_pitch,
                   valid ? dy_ + std::ptrdiff_t{pixel} * g_.filters + filter_ : dy_, valid);
    }
    b_pixel_ += pixels;
  }

  CORDEE_DEVICE void transform(std::byte* stage) {
    if constexpr (Prologue::has_transform)
      for_each_row(transform_position_, transform_pixel_, stage,
                   [&](std::byte* to, const N*, bool valid) {
                     if (valid) prologue_.transform(channel_, to);
                   });
  }

  template <class Block>
  CORDEE_DEVICE void load_a(Block& b, device::fragment& f, const std::byte* stage, int row,
                            int k) const {
    b.ldmatrix_trans(
        f, stage + k * device::fragment::rows * a_pitch + row * static_cast<int>(sizeof(N)),
        a_pitch);
  }
  template <class Block>
  CORDEE_DEVICE void load_b(Block& b, device::fragment& f, const std::byte* stage, int column,
                            int k) const {
    b.ldmatrix_trans(f,
                     stage + a_bytes + k * device::fragment::rows * b_pitch +
                         column * static_cast<int>(sizeof(N)),
                     b_pitch);
  }

 private:
  /// f(address in the stage, address in x, valid) for this thread's pixels of a K step; advances
  /// `position` and `pixel` to the next one.
  template <class F>
  CORDEE_DEVICE void for_each_row(pixel_position& position, int& pixel, std::byte* stage,
                                  const F& f) const {
    const pixel_position pass(a_rows_per_pass, g_.down.out, g_.across.out);
    pixel_position p = position;
    for (int i = 0; i < a_passes; ++i) {
      const int h = p.row * g_.down.stride + down_, l = p.column * g_.across.stride + across_;
      const bool valid = valid_ && pixel + i * a_rows_per_pass < last_ && h >= 0 &&
                         h < g_.down.in && l >= 0 && l < g_.across.in;
      const std::ptrdiff_t sample = std::ptrdiff_t{p.sample} * g_.down.in * g_.across.in;
      f(stage + (row_ + i * a_rows_per_pass) * a_pitch + column_ * 16,
        x_ + (sample + h * g_.across.in + l) * g_.channels + channel_, valid);
      p.advance(pass, g_.down.out, g_.across.out);
    }
    position.advance(step_, g_.down.out, g_.across.out);
    pixel += pixels;
  }

  const implicit_gemm& g_;
  const N *x_, *dy_;
  const Prologue& prologue_;
  int column_, row_, pixel_, last_, filter_, b_pixel_, b_offset_;
  pixel_position step_, position_;
  int transform_pixel_;
  pixel_position transform_position_;
  int channel_ = 0, down_ = 0, across_ = 0;
  bool valid_ = false;
};

/// A block computes 128 terms m of some filters k, of one split of the pixels.
template <class N, class Tile, class Prologue>
struct weight_gradient_kernel {
  using mma = typename mma_type<N>::mma;
  using loader = wgrad_loader<N, Tile, Prologue>;
  static constexpr int threads = Tile::threads;
  static constexpr int pixels = Tile::step_bytes / static_cast<int>(sizeof(N));  // per K step

  implicit_gemm g;
  const N *x, *dy;  // (samples, H, W, C'), (samples, H_out, W_out, K')
  Prologue prologue;
  float* partial;  // (splits, K', R, S, C')
  int steps;       // K steps per split

  [[nodiscard]] static constexpr std::size_t shared_bytes() {
    return std::size_t{Tile::stages} * loader::stage_bytes;
  }

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    std::byte* const memory = b.template shared<std::byte>(shared_bytes());
    const int down = (g.depth() + Tile::rows - 1) / Tile::rows,
              across = (g.filters + Tile::columns - 1) / Tile::columns;
    const int block = static_cast<int>(b.index()), tile = block % (down * across),
              split = block / (down * across);
    const int first_term = tile / across * Tile::rows, first_filter = tile % across * Tile::columns;
    const int first = split * steps * pixels,
              last = std::min(first + steps * pixels, static_cast<int>(g.pixels()));
    loader stages(g, x, dy, prologue, first_term, first_filter, first, last, b.thread());
    warp_tile<Tile, mma> warp(b.thread());
    warp.run_k_loop(b, (last - first + pixels - 1) / pixels, stages, memory);
    warp.for_each_accumulator([&](int row, int column, float sum) {
      const int term = first_term + row, filter = first_filter + column;
      if (term < g.depth() && filter < g.filters)
        partial[(std::ptrdiff_t{split} * g.filters + filter) * g.depth() + term] = sum;
    });
  }
};

/// K steps per split, of `steps` in all: enough blocks to fill the GPU, of enough steps each.
constexpr int steps_per_split(std::size_t steps, std::size_t tiles) {
  constexpr std::size_t enough_blocks = 512, fewest_steps = 16;
  const std::size_t splits =
      std::max<std::size_t>(1, std::min(enough_blocks / tiles, steps / fewest_steps));
  return static_cast<int>(blocks_for(steps, splits));
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
