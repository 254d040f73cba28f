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

/// The step of an input_walk, the same for all threads: so many output pixels on, and what changes
/// where that passes the end of a row, or the last row, of the output. Offsets are of numbers.
struct input_step {
  int columns, rows, offset;
  int column_carry, column_carry_rows, column_carry_offset;
  int row_carry, row_carry_offset;

  constexpr input_step(const implicit_gemm& g, int pixels) {
    const implicit_gemm::window_origin to = g.origin_of(pixels);
    const int row = g.across.in * g.channels, sample = g.down.in * row;
    columns = to.left - g.across.origin;
    rows = to.top - g.down.origin;
    offset = to.sample * sample + rows * row + columns * g.channels;
    column_carry = g.across.out * g.across.stride;
    column_carry_rows = g.down.stride;
    column_carry_offset = column_carry_rows * row - column_carry * g.channels;
    row_carry = g.down.out * g.down.stride;
    row_carry_offset = sample - row_carry * row;
  }
};

/// A walk over output pixels, as the input pixel that each reads at one tap.
class input_walk {
 public:
  /// Begins at `pixel`, and reads the input `down` and `across` from its window's first pixel.
  CORDEE_HOST_DEVICE constexpr input_walk(const implicit_gemm& g, int pixel, int down, int across)
      : row_end_(g.down.out * g.down.stride + g.down.origin + down),
        column_end_(g.across.out * g.across.stride + g.across.origin + across) {
    const implicit_gemm::window_origin first = g.origin_of(pixel);
    sample_ = first.sample;
    row_ = first.top + down;
    column_ = first.left + across;
  }

  /// Offset of the input pixel, in numbers; valid only for the first position.
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::ptrdiff_t offset(const implicit_gemm& g) const {
    return ((std::ptrdiff_t{sample_} * g.down.in + row_) * g.across.in + column_) * g.channels;
  }
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr bool is_inside(const implicit_gemm& g) const {
    return static_cast<unsigned>(row_) < static_cast<unsigned>(g.down.in) &&
           static_cast<unsigned>(column_) < static_cast<unsigned>(g.across.in);
  }
  /// Returns by how many numbers the offset changes.
  CORDEE_HOST_DEVICE constexpr int advance(const input_step& by) {
    int offset = by.offset;
    column_ += by.columns;
    row_ += by.rows;
    if (column_ >= column_end_) {
      column_ -= by.column_carry;
      row_ += by.column_carry_rows;
      offset += by.column_carry_offset;
    }
    if (row_ >= row_end_) {
      row_ -= by.row_carry;
      offset += by.row_carry_offset;
    }
    return offset;
  }

 private:
  int row_end_, column_end_, row_ = 0, column_ = 0, sample_ = 0;
};

/// Loads the K steps of a block's tile. A stage is, for each pixel of the K step, Tile::rows
/// numbers of x under the filter window, and behind these rows, for each pixel, Tile::columns
/// of dy.
template <class N, class Tile, class Prologue>
class wgrad_loader {
  static constexpr int numbers = numbers_per_copy<N>, size = static_cast<int>(sizeof(N)),
                       pixels = Tile::step_bytes / size;
  using a_rows = swizzled_rows<Tile::rows * size>;
  using b_rows = swizzled_rows<Tile::columns * size>;
  static constexpr int a_copies = Tile::rows / numbers, b_copies = Tile::columns / numbers;
  static constexpr int a_rows_per_pass = Tile::threads / a_copies,
                       b_rows_per_pass = Tile::threads / b_copies;
  static constexpr int a_bytes = pixels * a_rows::pitch;
  static constexpr int a_passes = pixels / a_rows_per_pass, b_passes = pixels / b_rows_per_pass;
  static_assert(a_rows_per_pass % 8 == 0 && b_rows_per_pass % 8 == 0);  // swizzled alike

 public:
  static constexpr int stage_bytes = a_bytes + pixels * b_rows::pitch;

  static constexpr input_step step_of(const implicit_gemm& g) { return {g, a_rows_per_pass}; }

  /// Loads terms and filters from the first ones on, over pixels first_pixel to last_pixel - 1.
  template <class Mma>
  CORDEE_DEVICE wgrad_loader(const implicit_gemm& g, const input_step& step, const N* x,
                             const N* dy, const Prologue& prologue, int first_term,
                             int first_filter, int first_pixel, int last_pixel,
                             const warp_tile<Tile, Mma>& warp, int thread)
      : wgrad_loader(g, step, x, dy, prologue, term_of(g, first_term + thread % a_copies * numbers),
                     first_filter + thread % b_copies * numbers, first_pixel, last_pixel, warp,
                     thread) {}

  template <class Block>
  CORDEE_DEVICE void fetch(Block& b, std::byte* stage) {
    for_each_row(position_, left_, stage, [&](std::byte* to, bool valid, int advance) {
      prologue_.copy(b, to, x_, valid);
      x_ += advance;
    });
    for (int i = 0; i < b_passes; ++i) {
      b.copy_async(stage + b_to_ + i * b_rows_per_pass * b_rows::pitch,
                   dy_ + i * b_rows_per_pass * g_.filters, i * b_rows_per_pass < b_left_);
    }
    dy_ += pixels * g_.filters;
    b_left_ -= pixels;
  }

  CORDEE_DEVICE void transform(std::byte* stage) {
    if constexpr (Prologue::has_transform)
      for_each_row(transform_position_, transform_left_, stage,
                   [&](std::byte* to, bool valid, int) {
                     if (valid) prologue_.transform(channel_, to);
                   });
  }

  // A lane's 16 rows are whole patterns of rows, and fragments are two chunks wide.
  template <class Block>
  CORDEE_DEVICE void load_a(Block& b, device::fragment& f, const std::byte* stage, int i,
                            int k) const {
    b.ldmatrix_trans(f, stage + (a_lane_ ^ i * 32) + k * device::fragment::rows * a_rows::pitch);
  }
  template <class Block>
  CORDEE_DEVICE void load_b(Block& b, device::fragment& f, const std::byte* stage, int i,
                            int k) const {
    b.ldmatrix_trans(f, stage + (b_lane_ ^ i * 32) + k * device::fragment::rows * b_rows::pitch);
  }

 private:
  /// A tap and a channel of x; beyond the last, pixels outside every image.
  struct term {
    int down, across, channel;
  };
  CORDEE_DEVICE static term term_of(const implicit_gemm& g, int index) {
    if (index >= g.depth()) return {outside, outside, 0};
    const int tap = g.by_channels.quotient(index), row = g.by_window.quotient(tap);
    return {row, tap - row * g.window, index - tap * g.channels};
  }
  static constexpr int outside = -(1 << 20);

  template <class Mma>
  CORDEE_DEVICE wgrad_loader(const implicit_gemm& g, const input_step& step, const N* x,
                             const N* dy, const Prologue& prologue, const term& at, int filter,
                             int first_pixel, int last_pixel, const warp_tile<Tile, Mma>& warp,
                             int thread)
      : g_(g),
        step_(step),
        prologue_(prologue),
        channel_(at.channel),
        position_(g, first_pixel + thread / a_copies, at.down, at.across),
        transform_position_(position_),
        x_(x + position_.offset(g) + at.channel),
        dy_(dy + std::ptrdiff_t{first_pixel + thread / b_copies} * g.filters + filter),
        left_(last_pixel - first_pixel - thread / a_copies),
        transform_left_(left_),
        b_left_(filter < g.filters ? last_pixel - first_pixel - thread / b_copies : 0),
        a_to_(a_rows::offset(thread / a_copies, thread % a_copies)),
        b_to_(a_bytes + b_rows::offset(thread / b_copies, thread % b_copies)) {
    const device::tile_chunk a = device::chunks_first(warp.lane), b = device::rows_first(warp.lane);
    a_lane_ = a_rows::offset(a.row, warp.row / numbers + a.chunk);
    b_lane_ = a_bytes + b_rows::offset(b.row, warp.column / numbers + b.chunk);
  }

  /// f(address in the stage, valid, distance to the next pixel in x) for this thread's pixels of a
  /// K step; advances `position`, and `left`, the pixels from there to the last, to the next one.
  template <class F>
  CORDEE_DEVICE void for_each_row(input_walk& position, int& left, std::byte* stage,
                                  const F& f) const {
    for (int i = 0; i < a_passes; ++i) {
      const bool valid = i * a_rows_per_pass < left && position.is_inside(g_);
      f(stage + a_to_ + i * a_rows_per_pass * a_rows::pitch, valid, position.advance(step_));
    }
    left -= pixels;
  }

  const implicit_gemm& g_;
  const input_step& step_;
  const Prologue& prologue_;
  int channel_;
  input_walk position_, transform_position_;
  const N *x_, *dy_;                           // x_ may point outside where a pixel is not inside
  int left_, transform_left_, b_left_;         // pixels to the last
  int a_to_, b_to_, a_lane_ = 0, b_lane_ = 0;  // offsets in a stage
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
  fast_divisor by_tiles_down = fast_divisor((g.depth() + Tile::rows - 1) / Tile::rows),
               by_tiles_across = fast_divisor((g.filters + Tile::columns - 1) / Tile::columns);
  input_step step = loader::step_of(g);

  [[nodiscard]] static constexpr std::size_t shared_bytes() {
    return std::size_t{Tile::stages} * loader::stage_bytes;
  }

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    std::byte* const memory = b.template shared<std::byte>(shared_bytes());  // (stages, A and B)
    const int block = static_cast<int>(b.index()), row = by_tiles_across.quotient(block),
              split = by_tiles_down.quotient(row);
    const int first_term = (row - split * by_tiles_down.divisor) * Tile::rows,
              first_filter = (block - row * by_tiles_across.divisor) * Tile::columns;
    const int first = split * steps * pixels,
              last = std::min(first + steps * pixels, static_cast<int>(g.pixels()));
    warp_tile<Tile, mma> warp(b.thread());
    loader stages(g, step, x, dy, prologue, first_term, first_filter, first, last, warp,
                  b.thread());
    warp.run_k_loop(b, (last - first + pixels - 1) / pixels, stages, memory);
    const int term = first_term + warp.first_row(), filter = first_filter + warp.first_column();
    float* const out = partial + (std::ptrdiff_t{split} * g.filters + filter) * g.depth() + term;
    warp.for_each_pair([&](int down, int across, const float(&sums)[2]) {
      if (term + down >= g.depth() || filter + across >= g.filters) return;  // multiples of 8
      float* const to = out + std::ptrdiff_t{across} * g.depth() + down;
      to[0] = sums[0];
      to[g.depth()] = sums[1];
    });
  }
};

/// K steps per split, of `steps` in all: enough blocks to fill the GPU, of enough steps each.
constexpr int steps_per_split(std::size_t steps, std::size_t tiles) {
  constexpr std::size_t enough_blocks = 512, fewest_steps = 16;
  const std::size_t splits =
      std::max<std::size_t>(1, std::min(enough_blocks / tiles, steps / fewest_steps));
  return static_cast<int>(device::blocks_for(steps, splits));
}

/// The split-K division of a weight gradient.
struct split_plan {
  std::size_t tiles, splits;  // tiles of dw
  int steps;                  // K steps per split
};
template <class N>
split_plan plan_splits(const convolution_problem& p, int samples) {
  const implicit_gemm g = fprop_gemm<N>(p, samples);
  split_plan plan{};
  with_tensor_core_tile(g.filters, [&](auto tile) {
    using T = decltype(tile);
    constexpr std::size_t pixels = T::step_bytes / sizeof(N);
    plan.tiles = device::blocks_for(static_cast<std::size_t>(g.depth()), T::rows) *
                 device::blocks_for(static_cast<std::size_t>(g.filters), T::columns);
    const std::size_t steps = device::blocks_for(g.pixels(), pixels);
    plan.steps = steps_per_split(steps, plan.tiles);
    plan.splits =
        plan.steps == 0 ? 0 : device::blocks_for(steps, static_cast<std::size_t>(plan.steps));
  });
  return plan;
}

/// The splits of dw, partial (splits, K', R, S, C'), and the kernel that adds them.
template <class N, class Prologue, class Real, class S>
unpack_filters_kernel<float, Real> launch_weight_gradient(const krsc_layout& layout,
                                                          const convolution_problem& p, int samples,
                                                          const N* x, const N* dy,
                                                          const Prologue& prologue, float* partial,
                                                          Real* dw, write_mode mode, S s) {
  const implicit_gemm g = fprop_gemm<N>(p, samples);
  expect_supported(g);
  const split_plan plan = plan_splits<N>(p, samples);
  with_tensor_core_tile(g.filters, [&](auto tile) {
    s.launch_kernel(plan.splits * plan.tiles, weight_gradient_kernel<N, decltype(tile), Prologue>{
                                                  g, x, dy, prologue, partial, plan.steps});
  });
  return {layout, partial, plan.splits, dw, mode};
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
