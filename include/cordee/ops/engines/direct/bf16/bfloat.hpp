// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// fprop of engine `direct` in bf16, and dgrad, by products of pairs, or on Arm of small matrices.
//
// The packed weights are (K/V, C/B, R, pairs of S B, V, 2), of matrices (K/V, C/B, R, S B/4, V, 4),
// with B = V or, of few channels, C; for dgrad with the taps in reverse order. The 3x3 window of
// padding 1 over blocks of V reads its input in place, forward and backward, at strides 1 and 2
// (bfloat_rows3x3.hpp). For other layers a sample is copied with its padding into a scratch of
// bf16, so that each is one loop over window rows of S B adjacent numbers; an input gradient of
// stride 1 is the correlation of dy, padded by R - 1 - p. What pairs do not compute runs in fp32
// (ops/engines/direct/correlation.hpp).
#pragma once

#include <cstddef>

#include <cordee/core/algorithm.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/direct/bf16/bfloat_matrix_tile.hpp>
#include <cordee/ops/engines/direct/bf16/bfloat_rows3x3.hpp>
#include <cordee/ops/engines/direct/bf16/bfloat_tile.hpp>
#include <cordee/ops/engines/direct/tiles/correlation_plan.hpp>
#include <cordee/ops/engines/direct/tiles/scratch.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

template <int V, bool Dots>
class bfloat_correlation {
 public:
  bfloat_correlation(const convolution_problem& p, bool backward)
      : p_(p),
        backward_(backward),
        in_(backward ? p.out() : p.in),
        out_(backward ? p.in : p.out()),
        padding_(backward ? p.window - 1 - p.padding : p.padding),
        block_(channel_block_size<V>(in_.channels)),
        blocks_(channel_blocks(in_.channels, block_)) {}

  /// What is written is in blocks of V channels, and a window row has a group of numbers.
  static constexpr bool applies_to(const convolution_problem& p, bool backward) {
    const int in = channel_block_size<V>(p.in.channels);
    return V % 2 == 0 && channel_block_size<V>(p.filters) == V && p.padding < p.window &&
           (backward ? in == V && (p.stride == 1 || is_rows3x3(p)) : in * p.window >= group);
  }
  /// Numbers of bf16.
  [[nodiscard]] std::size_t packed_size() const {
    return channel_blocks(out_.channels, V) * static_cast<std::size_t>(filter_block_size());
  }

  void pack(const float* master,  // (K, C, R, S)
            bfloat* packed,       // (K/V, C/B, R, groups, V, group)
            cpu::stream s) const {
    const auto block_size = static_cast<std::size_t>(filter_block_size());
    device::parallel_chunks(
        s, channel_blocks(out_.channels, V), 1, [&](std::size_t first, std::size_t last) {
          std::fill(packed + first * block_size, packed + last * block_size, bfloat{});
          for (std::size_t b = first; b < last; ++b)
            pack_block(static_cast<int>(b), master, packed + b * block_size);
        });
  }

  void run(int samples,
           const bfloat* x,       // (N, C/B, H, W, B)
           const bfloat* packed,  // (K/V, C/B, R, groups, V, group)
           bfloat* y,             // (N, K/V, H', W', V)
           write_mode mode, cpu::stream s) const {
    const auto n = static_cast<std::size_t>(samples);
    const std::size_t pairs = (channel_blocks(out_.channels, V) + 1) / 2,
                      parts = n == 0 ? 1
                                     : std::clamp<std::size_t>(
                                           8 * static_cast<std::size_t>(device::workers_of(s)) / n,
                                           1, device::workers_of(s) == 1 ? 1 : pairs);
    device::parallel_dynamic(s, n * parts, [&](std::size_t task) {
      const std::size_t sample = task / parts, part = task % parts;
      const bfloat* const xs = x + sample * sample_size(in_, block_);
      bfloat* const ys = y + sample * sample_size(out_, V);
      const std::size_t first = pairs * part / parts, last = pairs * (part + 1) / parts;
      const bool add = mode == write_mode::add;
      if (!is_rows3x3(p_) || block_ != V)
        run_padded(xs, packed, ys, add, first, last);
      else if (p_.stride == 1)
        run_rows3x3<1, 1>(xs, packed, ys, add, first, last);
      else if (backward_)
        run_rows3x3<1, 2>(xs, packed, ys, add, first, last);
      else
        run_rows3x3<2, 1>(xs, packed, ys, add, first, last);
    });
  }

 private:
  static constexpr int group = bfloat_group<V, Dots>;  // of channels, or of a window row's numbers
  static constexpr bool is_rows3x3(const convolution_problem& p) {
    return p.window == 3 && p.padding == 1 && p.stride <= 2;
  }

  /// Numbers of x under a row of the window, in one block of channels.
  [[nodiscard]] std::ptrdiff_t row_numbers() const { return std::ptrdiff_t{block_} * p_.window; }
  [[nodiscard]] std::ptrdiff_t whole_groups() const {  // the same, rounded up
    return (row_numbers() + group - 1) / group * group;
  }
  /// Packed weights of V filters.
  [[nodiscard]] std::ptrdiff_t filter_block_size() const {
    return static_cast<std::ptrdiff_t>(blocks_) * p_.window * whole_groups() * V;
  }

  void pack_block(int block, const float* master, bfloat* packed) const {
    const int window = p_.window, taps = window * window;
    const std::ptrdiff_t last = row_numbers() - group, pitch = whole_groups();
    for (int o = block * V; o < std::min(out_.channels, (block + 1) * V); ++o)
      for (int i = 0; i < in_.channels; ++i)
        for (int tap = 0; tap < taps; ++tap) {
          const int k = backward_ ? i : o, c = backward_ ? o : i;
          const float w = master[(std::ptrdiff_t{k} * p_.in.channels + c) * taps +
                                 (backward_ ? taps - 1 - tap : tap)];
          const std::ptrdiff_t row = std::ptrdiff_t{i / block_} * window + tap / window,
                               n = std::ptrdiff_t{tap % window} * block_ + i % block_,
                               first =
                                   n - n % group;  // of its group, which begins at `last` or before
          packed[(row * pitch + first) * V + group * (o % V) + n - std::min(first, last)] =
              bfloat::nearest(w);
        }
  }

  /// Pairs of filter blocks first .. last-1 of one sample.
  template <int In, int Out>
  void run_rows3x3(const bfloat* x, const bfloat* packed, bfloat* y, bool add, std::size_t first,
                   std::size_t last) const {
    const std::ptrdiff_t x_row = std::ptrdiff_t{V} * in_.width,
                         y_row = std::ptrdiff_t{V} * out_.width;
    bfloat_rows_area area{.blocks = static_cast<int>(blocks_),
                          .columns = in_.width,
                          .x_block = in_.height * x_row,
                          .w_block = std::ptrdiff_t{9} * V * V,
                          .w_filters = filter_block_size(),
                          .y_block = out_.height * y_row,
                          .x_row = x_row,
                          .y_row = y_row,
                          .add = add};
    const std::size_t out_blocks = channel_blocks(out_.channels, V);
    for (std::size_t k = 2 * first; k < std::min(2 * last, out_blocks); k += 2) {
      const auto at_block = static_cast<std::ptrdiff_t>(k);
      for (int i = 0; i < out_.height; ++i) {
        area.window_rows = 0;
        for (int r = 0; r < 3; ++r) {      // of the packed weights
          const int row = i * In + r - 1;  // of x, times Out
          if (row % Out != 0 || row < 0 || row / Out >= in_.height) continue;
          area.x[area.window_rows] = x + row / Out * x_row;
          area.w[area.window_rows++] =
              packed + at_block * filter_block_size() + std::ptrdiff_t{3} * r * V * V;
        }
        area.y = y + at_block * area.y_block + i * y_row;
        (k + 1 < out_blocks ? bfloat_rows3x3_run<V, Dots, 2, In, Out>
                            : bfloat_rows3x3_run<V, Dots, 1, In, Out>)(area, out_.width);
      }
    }
  }

  /// Pairs of filter blocks first .. last-1 of one sample.
  void run_padded(const bfloat* x, const bfloat* packed, bfloat* y, bool add, std::size_t first,
                  std::size_t last) const {
    const int step = backward_ ? 1 : p_.stride;
    const std::ptrdiff_t pixel = block_;
    const bool is_padded = padding_ > 0;
    const std::ptrdiff_t rows = is_padded ? std::ptrdiff_t{out_.height - 1} * step + p_.window
                                          : in_.height,
                         row =
                             pixel * (is_padded ? (out_.width - 1) * step + p_.window : in_.width);
    const bfloat* const padded = is_padded ? pad(x, rows, row) : x;  // (C/B, rows, columns, B)
    const std::size_t out_blocks = channel_blocks(out_.channels, V);
    const auto y_block = static_cast<std::ptrdiff_t>(out_.pixels()) * V;
    for (std::size_t k = 2 * first; k < std::min(2 * last, out_blocks); k += 2) {
      const bool pair = k + 1 < out_blocks;
      const auto at_block = static_cast<std::ptrdiff_t>(k);
      const bfloat_area area{.blocks = static_cast<int>(blocks_),
                             .rows = p_.window,
                             .row_numbers = row_numbers(),
                             .x = padded,
                             .x_step = pixel * step,
                             .x_row = row,
                             .x_block = rows * row,
                             .w = packed + at_block * filter_block_size(),
                             .w_block = filter_block_size(),
                             .y = y + at_block * y_block,
                             .y_block = y_block,
                             .add = add};
      auto run_rows =
          area.x_step == image_pitch
              ? (pair ? bfloat_rows<V, Dots, 2, image_pitch> : bfloat_rows<V, Dots, 1, image_pitch>)
              : (pair ? bfloat_rows<V, Dots, 2> : bfloat_rows<V, Dots, 1>);
      if constexpr (group == 4 && V == 4)  // two pixels are one load
        if (area.x_step == V)
          run_rows = pair ? bfloat_rows<V, Dots, 2, V> : bfloat_rows<V, Dots, 1, V>;
      run_rows(area, out_.height, out_.width, step * row, std::ptrdiff_t{V} * out_.width);
    }
  }

  /// A copy of x with its padding, (C/B, rows, columns, B), `row` numbers to a row.
  const bfloat* pad(const bfloat* x, std::ptrdiff_t rows, std::ptrdiff_t row) const {
    thread_local scratch<bfloat> memory;
    const std::size_t size = blocks_ * static_cast<std::size_t>(rows * row);
    bfloat* const padded = memory.reserve(size);
    std::fill_n(padded, size, bfloat{});
    const std::ptrdiff_t x_row = std::ptrdiff_t{block_} * in_.width,
                         left = std::ptrdiff_t{block_} * padding_,
                         inside = std::min<std::ptrdiff_t>(in_.height, rows - padding_);
    for (std::ptrdiff_t b = 0; b < static_cast<std::ptrdiff_t>(blocks_); ++b)
      for (std::ptrdiff_t i = 0; i < inside; ++i)
        std::copy_n(x + (b * in_.height + i) * x_row, std::min(x_row, row - left),
                    padded + (b * rows + padding_ + i) * row + left);
    return padded;
  }

  convolution_problem p_;
  bool backward_;
  extent in_, out_;
  int padding_, block_;
  std::size_t blocks_;  // of input channels
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
