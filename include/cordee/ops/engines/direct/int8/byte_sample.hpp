// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A sample as engine `direct`'s convolution of bytes reads it: (C/B, rows, columns, B), with the
// zero point as padding, and only the pixels that a window of one pixel reads behind a stride.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <cordee/core/algorithm.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/engines/direct/tiles/scratch.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// What convolutions of bytes need on one thread (run_samples of byte_correlation.hpp).
struct byte_scratch {
  scratch<std::uint8_t> bytes;     // (samples, C/B, rows, columns, B)
  scratch<std::uint16_t> shorts;   // the same of numbers of 16 bits, or in panels
  scratch<std::int32_t> sums;      // (2, pixels of a chunk, V)
  scratch<std::int32_t> products;  // of tiles (byte_winograd.hpp)

  template <class Number>
  [[nodiscard]] scratch<Number>& padded() {
    if constexpr (sizeof(Number) == 1)
      return bytes;
    else
      return shorts;
  }
};

/// N: what a byte is stored as, 8 or 16 bits. With panels, what a window of one pixel reads is
/// (pixels / Panel, C/B, Panel, B): a tile of so many pixels reads adjacent numbers.
template <int V, class N = std::uint8_t, int Panel = 0>
struct byte_sample {
  explicit byte_sample(const convolution_problem& layer)
      : strided(layer),
        problem(in_long_rows(strided.dense_layer(layer))),
        block(channel_block_size<V>(layer.in.channels)),
        blocks(static_cast<int>(channel_blocks(layer.in.channels, block))),
        rows((problem.out().height - 1) * problem.stride + problem.window),
        columns((problem.out().width - 1) * problem.stride + problem.window) {}

  [[nodiscard]] std::ptrdiff_t row() const { return std::ptrdiff_t{block} * columns; }
  [[nodiscard]] std::ptrdiff_t plane() const { return row() * rows; }
  [[nodiscard]] std::size_t size() const {
    if constexpr (Panel > 0)
      if (in_panels())
        return (problem.in.pixels() + Panel - 1) / Panel * Panel *
               static_cast<std::size_t>(blocks) * V;
    return static_cast<std::size_t>(plane() * blocks);
  }
  [[nodiscard]] bool in_panels() const {
    return Panel > 0 && problem.window == 1 && problem.padding == 0 && block == V;
  }
  /// Whether these bytes are those of an input of bytes.
  [[nodiscard]] bool is_input() const {
    return Panel == 0 && block == V && strided.stride == 1 && problem.padding == 0 &&
           rows == problem.in.height && columns == problem.in.width;
  }

  /// Rows first .. last-1 of each block, counted with padding.
  struct row_range {
    int first, last;
  };
  [[nodiscard]] row_range all_rows() const { return {0, rows}; }

  /// Numbers of the following.
  [[nodiscard]] std::size_t padded_size(std::size_t samples) const { return samples * size() + V; }
  /// Memory for samples, (samples, C/B, rows, columns, B) or in panels, with the padding of these
  /// rows.
  N* padded(scratch<N>& memory, int zero_point, std::size_t samples, row_range range) const {
    N* const bytes = memory.reserve(padded_size(samples));
    if (problem.padding == 0) return bytes;  // all are written
    const auto length = static_cast<std::size_t>((range.last - range.first) * row());
    if (range.last - range.first == rows)
      fill(bytes, zero_point, samples * size());
    else
      for (std::size_t b = 0; b < samples * static_cast<std::size_t>(blocks); ++b)
        fill(bytes + static_cast<std::ptrdiff_t>(b) * plane() + range.first * row(), zero_point,
             length);
    return bytes;
  }
  N* padded(scratch<N>& memory, int zero_point) const {
    return padded(memory, zero_point, 1, all_rows());
  }
  /// These rows of one sample into the middle of `to`: the padding is not written. `to_bytes` has
  /// quantize(x, q), of V numbers, and byte_of(x); it is not called where x are bytes.
  template <class In, class ToBytes>
  void quantize(const In* x,  // (C/B, H, W, B)
                ToBytes to_bytes,
                N* to,  // (C/B, rows, columns, B), or in panels
                row_range range) const {
    if constexpr (Panel > 0)
      if (in_panels()) return quantize_panels(x, to_bytes, to, range);
    const extent& in = problem.in;
    if (strided.stride > 1) {
      for (int b = 0; b < blocks; ++b, to += plane())
        quantize_strided(x + b * std::ptrdiff_t{V} * strided.in.height * strided.in.width, to_bytes,
                         to, range.first * columns, range.last * columns);
      return;
    }
    const int left = std::min(columns, problem.padding), top = problem.padding,
              pixels = std::clamp(columns - left, 0, in.width),
              first = std::max(range.first - top, 0), last = std::min(range.last - top, in.height);
    for (int b = 0; b < blocks; ++b)
      for (int h = first; h < last; ++h)
        quantize_all(x + (std::ptrdiff_t{b} * in.height + h) * in.width * block, pixels * block,
                     to_bytes, to + b * plane() + (top + h) * row() + left * block);
  }
  template <class In, class ToBytes>
  void quantize(const In* x, ToBytes to_bytes, N* to) const {
    quantize(x, to_bytes, to, all_rows());
  }

  strided_pixels<V> strided;
  convolution_problem problem;  // without that stride
  int block, blocks;            // channels to a block, blocks
  int rows, columns;            // with padding

 private:
  static constexpr int long_row = 100;  // 98 pixels of 56 x 56, 28 x 28 and 14 x 14

  /// The layer over the same pixels in longer rows: a window of one pixel reads no neighbors.
  static convolution_problem in_long_rows(convolution_problem p) {
    if (p.window > 1 || p.padding > 0 || p.stride > 1) return p;
    const int pixels = p.in.height * p.in.width;
    int width = std::min(pixels, long_row);
    while (pixels % width != 0) --width;
    if (width <= p.in.width) return p;
    p.in.height = pixels / width;
    p.in.width = width;
    return p;
  }
  /// The pixels first .. last-1 behind the stride, of one block of channels: x (H, W, V), to
  /// (rows, columns, V).
  template <class In, class ToBytes>
  void quantize_strided(const In* x, ToBytes to_bytes, N* to, int first, int last) const {
    const int width = (strided.in.width - 1) / strided.stride + 1;  // not that of long rows
    for (int p = first, j = first % width; p < last; j = 0) {
      const In* const row_x = x + std::ptrdiff_t{p / width} * strided.stride * strided.in.width * V;
      for (; j < width && p < last; ++j, ++p)
        quantize_all(row_x + std::ptrdiff_t{j} * strided.stride * V, V, to_bytes,
                     to + std::ptrdiff_t{p} * V);
    }
  }
  /// x (C/V, H, W, V), to (pixels / Panel, C/V, Panel, V).
  template <class In, class ToBytes>
  void quantize_panels(const In* x, const ToBytes& to_bytes, N* to, row_range range) const {
    const int end = range.last * columns;
    for (int p = range.first * columns, next; p < end; p = next) {
      next = std::min((p / Panel + 1) * Panel, end);
      for (std::ptrdiff_t b = 0; b < blocks; ++b) {
        N* const panel = to + (p / Panel * blocks + b) * Panel * V;
        if (strided.stride > 1)
          quantize_strided(x + b * V * strided.in.height * strided.in.width, to_bytes,
                           panel - p / Panel * Panel * V, p, next);
        else
          quantize_all<V>(x + (b * problem.in.height * columns + p) * V, (next - p) * V, to_bytes,
                          panel + p % Panel * V);
      }
    }
  }
  static void fill(N* to, int byte, std::size_t n) {
    if constexpr (sizeof(N) == 1)
      std::memset(to, byte, n);
    else  // as vectors: compilers write one number at a time at -O2; there is room for V more
      for (std::size_t i = 0; i < n; i += V)
        store<N, V>(to + i, vec<N, V>{} + static_cast<N>(byte));
  }
  /// Whole: n is a multiple of it.
  template <int Whole = 1, class In, class ToBytes>
  [[gnu::always_inline]] static void quantize_all(const In* x, int n, const ToBytes& to_bytes,
                                                  N* q) {
    if constexpr (std::same_as<In, N> && Whole == V) {
      for (int i = 0; i < n; i += V) store<N, V>(q + i, load<N, V>(x + i));
    } else if constexpr (std::same_as<In, N>) {
      std::memcpy(q, x, static_cast<std::size_t>(n));
    } else if constexpr (std::same_as<In, std::uint8_t>) {
      int i = 0;
      for (; i + 2 * V <= n; i += 2 * V) widen<2 * V>(x + i, q + i);
      for (; i + V <= n; i += V) widen<V>(x + i, q + i);
      for (; i < n; ++i) q[i] = x[i];
    } else {
      const ToBytes local = to_bytes;  // in registers: q could alias an object's members
      int i = 0;
      for (; i + V <= n; i += V)
        if constexpr (sizeof(N) == 1) {
          local.quantize(x + i, q + i);
        } else {
          std::uint8_t bytes[std::size_t{V}];
          local.quantize(x + i, bytes);
          widen<V>(bytes, q + i);
        }
      for (; i < n; ++i) q[i] = local.byte_of(x[i]);
    }
  }
  template <int W>
  [[gnu::always_inline]] static void widen(const std::uint8_t* x, N* q) {
    store<N, W>(q, __builtin_convertvector(load<std::uint8_t, W>(x), vec<N, W>));
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
