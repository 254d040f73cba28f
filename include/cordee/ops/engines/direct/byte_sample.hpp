// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A sample as engine `direct`'s convolution of bytes reads it: (C/B, rows, columns, B), with the
// zero point as padding, and only the pixels that a window of one pixel reads behind a stride.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/direct/scratch.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

template <int V>
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
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(plane() * blocks); }
  /// Whether these bytes are those of an input of bytes.
  [[nodiscard]] bool is_input() const {
    return block == V && strided.stride == 1 && problem.padding == 0 && rows == problem.in.height &&
           columns == problem.in.width;
  }

  /// Rows first .. last-1 of each block, counted with padding.
  struct row_range {
    int first, last;
  };
  [[nodiscard]] row_range all_rows() const { return {0, rows}; }

  /// Memory for `samples` samples, with the padding of these rows.
  std::uint8_t* padded(scratch<std::uint8_t>& memory, int zero_point, std::size_t samples,
                       row_range range) const {
    std::uint8_t* const bytes = memory.reserve(samples * size() + V);
    if (problem.padding == 0) return bytes;  // all are written
    const auto length = static_cast<std::size_t>((range.last - range.first) * row());
    if (range.last - range.first == rows)
      std::memset(bytes, zero_point, samples * size());
    else
      for (std::size_t b = 0; b < samples * static_cast<std::size_t>(blocks); ++b)
        std::memset(bytes + static_cast<std::ptrdiff_t>(b) * plane() + range.first * row(),
                    zero_point, length);
    return bytes;
  }
  std::uint8_t* padded(scratch<std::uint8_t>& memory, int zero_point) const {
    return padded(memory, zero_point, 1, all_rows());
  }
  /// These rows of one sample into the middle of `to`: the padding is not written. `to_bytes` has
  /// quantize(x, q), of V numbers, and byte_of(x); it is not called where x are bytes.
  template <class In, class ToBytes>
  void quantize(const In* x,  // (C/B, H, W, B)
                ToBytes to_bytes, std::uint8_t* to, row_range range) const {
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
  void quantize(const In* x, ToBytes to_bytes, std::uint8_t* to) const {
    quantize(x, to_bytes, to, all_rows());
  }

  strided_pixels<V> strided;
  convolution_problem problem;  // without that stride
  int block, blocks;            // channels to a block, blocks
  int rows, columns;            // with padding

 private:
  static constexpr int long_row = 128;

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
  /// The pixels first .. last-1 behind the stride, of one block of channels.
  template <class In, class ToBytes>
  void quantize_strided(const In* x, ToBytes to_bytes, std::uint8_t* to, int first,
                        int last) const {
    const int width = (strided.in.width - 1) / strided.stride + 1;  // not that of long rows
    for (int p = first, j = first % width; p < last; j = 0) {
      const In* const row_x = x + std::ptrdiff_t{p / width} * strided.stride * strided.in.width * V;
      for (; j < width && p < last; ++j, ++p)
        quantize_all(row_x + std::ptrdiff_t{j} * strided.stride * V, V, to_bytes,
                     to + std::ptrdiff_t{p} * V);
    }
  }
  template <class In, class ToBytes>
  [[gnu::always_inline]] static void quantize_all(const In* x, int n, const ToBytes& to_bytes,
                                                  std::uint8_t* q) {
    if constexpr (std::same_as<In, std::uint8_t>) {
      std::memcpy(q, x, static_cast<std::size_t>(n));
    } else {
      const ToBytes local = to_bytes;  // in registers: q could alias an object's members
      int i = 0;
      for (; i + V <= n; i += V) local.quantize(x + i, q + i);
      for (; i < n; ++i) q[i] = local.byte_of(x[i]);
    }
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
