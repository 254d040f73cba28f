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

  /// Memory for `samples` samples, with their padding.
  std::uint8_t* padded(scratch<std::uint8_t>& memory, int zero_point,
                       std::size_t samples = 1) const {
    std::uint8_t* const bytes = memory.reserve(samples * size() + V);
    if (problem.padding > 0)
      std::memset(bytes, zero_point, samples * size());  // else all are written
    return bytes;
  }
  /// One sample into the middle of `to`: the padding is not written. `to_bytes` has quantize(x, q),
  /// of V numbers, and byte_of(x); it is not called where x are bytes.
  template <class In, class ToBytes>
  void quantize(const In* x,  // (C/B, H, W, B)
                ToBytes to_bytes, std::uint8_t* to) const {
    if (strided.stride > 1)
      return strided.for_each_pixel_of(x, [&to, to_bytes](const In* pixel) {
        quantize_all(pixel, V, to_bytes, to);
        to += V;
      });
    const extent& in = problem.in;
    const int left = std::min(columns, problem.padding), top = problem.padding,
              pixels = std::clamp(columns - left, 0, in.width),
              height = std::clamp(rows - top, 0, in.height);
    for (int b = 0; b < blocks; ++b)
      for (int h = 0; h < height; ++h)
        quantize_all(x + (std::ptrdiff_t{b} * in.height + h) * in.width * block, pixels * block,
                     to_bytes, to + b * plane() + (top + h) * row() + left * block);
  }

  strided_pixels<V> strided;
  convolution_problem problem;  // without that stride
  int block, blocks;            // channels to a block, blocks
  int rows, columns;            // with padding

 private:
  static constexpr int long_row = 128;

  /// The layer over the same pixels in longer rows: a window of one pixel knows no edges.
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
