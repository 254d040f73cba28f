// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// fprop of engine `direct` in bf16, and dgrad, by products of pairs of channels.
//
// The packed weights are (K/V, C/V, R, S, V/2, V, 2); for dgrad with the taps in reverse order. The
// 3x3 window of padding 1 reads its input in place, forward and backward, at strides 1 and 2
// (bfloat_rows3x3.hpp). For other windows a sample is copied with its padding into a scratch of
// bf16, so that each is one loop over window rows of S V adjacent numbers; an input gradient of
// stride 1 is the correlation of dy, padded by R - 1 - p. Other layers run in fp32
// (correlation.hpp).
#pragma once

#include <algorithm>
#include <cstddef>

#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/direct/bfloat_rows3x3.hpp>
#include <cordee/ops/engines/direct/bfloat_tile.hpp>
#include <cordee/ops/engines/direct/packed_form.hpp>
#include <cordee/ops/engines/direct/scratch.hpp>
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
        form_{out_.channels, in_.channels, p.window} {}

  /// Few channels are not in blocks of V.
  static constexpr bool applies_to(const convolution_problem& p, bool backward) {
    return V % 2 == 0 && channel_block_size<V>(p.in.channels) == V &&
           channel_block_size<V>(p.filters) == V && p.padding < p.window &&
           (!backward || p.stride == 1 || is_rows3x3(p));
  }
  /// Numbers of bf16.
  [[nodiscard]] std::size_t packed_size() const { return form_.size(); }

  void pack(const float* master,  // (K, C, R, S)
            bfloat* packed, cpu::stream s) const {
    const auto block_size = static_cast<std::size_t>(form_.block_size());
    parallel_chunks(s, channel_blocks(out_.channels, V), 1,
                    [&](std::size_t first, std::size_t last) {
                      std::fill(packed + first * block_size, packed + last * block_size, bfloat{});
                      for (std::size_t b = first; b < last; ++b)
                        pack_block(static_cast<int>(b), master, packed + b * block_size);
                    });
  }

  void run(int samples,
           const bfloat* x,       // (N, C/V, H, W, V)
           const bfloat* packed,  // (K/V, C/V, R, S, V/2, V, 2)
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
      const bfloat* const xs = x + sample * sample_size(in_, V);
      bfloat* const ys = y + sample * sample_size(out_, V);
      const std::size_t first = pairs * part / parts, last = pairs * (part + 1) / parts;
      const bool add = mode == write_mode::add;
      if (!is_rows3x3(p_))
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
  static constexpr bool is_rows3x3(const convolution_problem& p) {
    return p.window == 3 && p.padding == 1 && p.stride <= 2;
  }

  void pack_block(int block, const float* master, bfloat* packed) const {
    const int taps = p_.window * p_.window;
    for (int o = block * V; o < std::min(out_.channels, (block + 1) * V); ++o)
      for (int i = 0; i < in_.channels; ++i)
        for (int tap = 0; tap < taps; ++tap) {
          const int k = backward_ ? i : o, c = backward_ ? o : i;
          const float w = master[(std::ptrdiff_t{k} * p_.in.channels + c) * taps +
                                 (backward_ ? taps - 1 - tap : tap)];
          const std::ptrdiff_t pair = form_.at(i - i % 2, tap / p_.window, tap % p_.window);
          packed[pair + 2 * (o % V) + i % 2] = bfloat::nearest(w);
        }
  }

  /// Pairs of filter blocks first .. last-1 of one sample.
  template <int In, int Out>
  void run_rows3x3(const bfloat* x, const bfloat* packed, bfloat* y, bool add, std::size_t first,
                   std::size_t last) const {
    const std::ptrdiff_t x_row = std::ptrdiff_t{V} * in_.width,
                         y_row = std::ptrdiff_t{V} * out_.width;
    bfloat_rows_area area{.blocks = static_cast<int>(channel_blocks(in_.channels, V)),
                          .columns = in_.width,
                          .x_block = in_.height * x_row,
                          .w_block = std::ptrdiff_t{9} * V * V,
                          .w_filters = form_.block_size(),
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
              packed + at_block * form_.block_size() + std::ptrdiff_t{3} * r * V * V;
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
    thread_local scratch<bfloat> memory;
    const int step = backward_ ? 1 : p_.stride;
    const std::ptrdiff_t rows = std::ptrdiff_t{out_.height - 1} * step + p_.window,
                         row = std::ptrdiff_t{V} * ((out_.width - 1) * step + p_.window);
    const std::size_t blocks = channel_blocks(in_.channels, V),
                      out_blocks = channel_blocks(out_.channels, V);
    bfloat* const padded =  // (C/V, rows, columns, V)
        memory.reserve(blocks * static_cast<std::size_t>(rows * row));
    for (std::size_t b = 0; b < blocks; ++b)
      for (std::ptrdiff_t i = 0; i < rows; ++i) {
        const std::ptrdiff_t h = i - padding_, size = std::ptrdiff_t{V} * in_.width;
        const bool inside = h >= 0 && h < in_.height;
        pad_row(x + (static_cast<std::ptrdiff_t>(b) * in_.height + (inside ? h : 0)) * size,
                inside ? size : 0, std::ptrdiff_t{V} * padding_, row,
                padded + (static_cast<std::ptrdiff_t>(b) * rows + i) * row);
      }
    const auto y_block = static_cast<std::ptrdiff_t>(out_.pixels()) * V;
    for (std::size_t k = 2 * first; k < std::min(2 * last, out_blocks); k += 2) {
      const bool pair = k + 1 < out_blocks;
      const auto at_block = static_cast<std::ptrdiff_t>(k);
      for (int i = 0; i < out_.height; ++i) {
        const bfloat_area area{.blocks = static_cast<int>(blocks),
                               .window = p_.window,
                               .x = padded + i * step * row,
                               .x_step = std::ptrdiff_t{V} * step,
                               .x_row = row,
                               .x_block = rows * row,
                               .w = packed + at_block * form_.block_size(),
                               .w_block = form_.block_size(),
                               .y = y + at_block * y_block + std::ptrdiff_t{i} * out_.width * V,
                               .y_block = y_block,
                               .add = add};
        (pair ? bfloat_row<V, Dots, 2> : bfloat_row<V, Dots, 1>)(area, out_.width);
      }
    }
  }

  convolution_problem p_;
  bool backward_;
  extent in_, out_;
  int padding_;
  packed_form<V> form_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
