// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The layers without weights of an integer network on SIMD registers, in parts that threads can
// share. Activations are (C / V, H, W, V).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include <cordee/core/equal_part.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/infer/cpu/rescale_lanes.hpp>
#include <cordee/infer/program/integer_layers.hpp>
#include <cordee/ops/cpu/pooling.hpp>
#include <cordee/ops/engines/direct/int8/bytes.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

template <int V>
struct direct_layers {
  static std::size_t size_of(const extent& e) {
    return ops::sample_size(e, ops::channel_block_size<V>(e.channels));
  }
  /// Calls f(number in (C, H, W), number in (C / V, H, W, V)).
  template <class F>
  static void for_each_number(const extent& e, const F& f) {
    const auto block = static_cast<std::size_t>(ops::channel_block_size<V>(e.channels));
    for (std::size_t c = 0, i = 0; c < static_cast<std::size_t>(e.channels); ++c)
      for (std::size_t p = 0; p < e.pixels(); ++p, ++i)
        f(i, (c / block * e.pixels() + p) * block + c % block);
  }

  /// The first layer's bytes of an image (C, H, W), by the table (C, 256).
  static void read_image(const extent& e, const std::uint8_t* table, const std::uint8_t* image,
                         std::uint8_t* q, core::equal_part part = {}) {
    const auto block = static_cast<std::size_t>(ops::channel_block_size<V>(e.channels)),
               pixels = e.pixels();
    for (std::size_t c = 0; c < static_cast<std::size_t>(e.channels); ++c, table += 256) {
      std::uint8_t* const to = q + c / block * pixels * block + c % block;
      for (std::size_t p = part.first(pixels); p < part.last(pixels); ++p)
        to[p * block] = table[image[c * pixels + p]];
    }
  }

  template <Activation A>
  static void max_pool(const ops::max_pool_problem& p, const A* x, A* y,
                       core::equal_part part = {}) {
    const extent out = p.out();
    const auto height = static_cast<std::size_t>(out.height),
               rows =
                   ops::channel_blocks(p.in.channels, ops::channel_block_size<V>(p.in.channels)) *
                   height;
    for (std::size_t row = part.first(rows); row < part.last(rows); ++row)
      max_pool_row(p, row / height, static_cast<int>(row % height), x, y);
  }
  /// Rows first .. last-1 of all channels.
  template <Activation A>
  static void max_pool_rows(const ops::max_pool_problem& p, const A* x, A* y, int first, int last) {
    const std::size_t blocks =
        ops::channel_blocks(p.in.channels, ops::channel_block_size<V>(p.in.channels));
    for (std::size_t b = 0; b < blocks; ++b)
      for (int i = first; i < last; ++i) max_pool_row(p, b, i, x, y);
  }

  template <Activation A>
  static void subsample(const ops::subsample_problem& p, const A* x, A* y,
                        core::equal_part part = {}) {
    const int x_block = ops::channel_block_size<V>(p.in.channels),
              y_block = ops::channel_block_size<V>(p.out.channels);
    const auto height = static_cast<std::size_t>(p.out.height);
    const auto first = static_cast<int>(part.first(height)),
               last = static_cast<int>(part.last(height));
    const auto row = std::ptrdiff_t{p.out.width} * y_block;
    for (std::size_t b = 0; b < ops::channel_blocks(p.out.channels, y_block); ++b)
      std::fill_n(y + (static_cast<std::ptrdiff_t>(b) * p.out.height + first) * row,
                  (last - first) * row, A{0});
    for (int c = 0, run; c < p.in.channels; c += run) {  // channels of one block in x and in y
      const int to = c - p.source(0);
      run = std::min({x_block - c % x_block, y_block - to % y_block, p.in.channels - c});
      const A* const from =
          x + std::ptrdiff_t{c / x_block} * p.in.height * p.in.width * x_block + c % x_block;
      A* at = y + (std::ptrdiff_t{to / y_block} * p.out.height + first) * row + to % y_block;
      for (int i = first; i < last; ++i)
        for (int j = 0; j < p.out.width; ++j, at += y_block)
          std::memcpy(at, from + (std::ptrdiff_t{i} * p.in.width + j) * p.stride * x_block,
                      static_cast<std::size_t>(run) * sizeof *at);
    }
  }

  static void mean(const extent& in, const std::int32_t* x, std::int32_t* y,
                   core::equal_part part = {}) {
    const auto block = static_cast<std::size_t>(ops::channel_block_size<V>(in.channels));
    const auto pixels = static_cast<std::int64_t>(in.pixels());
    const std::size_t blocks = ops::channel_blocks(in.channels, static_cast<int>(block));
    x += part.first(blocks) * in.pixels() * block;
    y += part.first(blocks) * block;
    for (std::size_t b = part.first(blocks); b < part.last(blocks); ++b) {
      std::int64_t sum[std::size_t{V}] = {};
      for (std::int64_t p = 0; p < pixels; ++p)
        for (std::size_t v = 0; v < block; ++v) sum[v] += *x++;
      for (std::size_t v = 0; v < block; ++v) {
        const std::int64_t rounded = sum[v] + pixels / 2, quotient = rounded / pixels;
        *y++ = static_cast<std::int32_t>(rounded < quotient * pixels ? quotient - 1 : quotient);
      }
    }
  }

 private:
  /// Row i of a block of channels.
  template <Activation A>
  static void max_pool_row(const ops::max_pool_problem& p, std::size_t b, int i, const A* x, A* y) {
    const extent out = p.out();
    const int block = ops::channel_block_size<V>(p.in.channels);
    x += static_cast<std::ptrdiff_t>(b) * p.in.height * p.in.width * block;
    y += (static_cast<std::ptrdiff_t>(b) * out.height + i) * out.width * block;
    const auto [r0, r1] = p.taps(i, p.in.height);
    for (int j = 0; j < out.width; ++j, y += block) {
      const auto [s0, s1] = p.taps(j, p.in.width);
      const A* const first =
          x + ((i * p.stride - p.padding) * std::ptrdiff_t{p.in.width} + j * p.stride - p.padding) *
                  block;
      const auto pixel = [&](int r, int s) {
        return first + (std::ptrdiff_t{r} * p.in.width + s) * block;
      };
      if (block == V) {
        auto largest = ops::load<A, V>(pixel(r0, s0));
        for (int r = r0; r < r1; ++r)
          for (int s = s0; s < s1; ++s) {
            const auto from = ops::load<A, V>(pixel(r, s));
            largest = from > largest ? from : largest;
          }
        ops::store<A, V>(y, largest);
        continue;
      }
      for (int v = 0; v < block; ++v) {
        A largest = pixel(r0, s0)[v];
        for (int r = r0; r < r1; ++r)
          for (int s = s0; s < s1; ++s) largest = std::max(largest, pixel(r, s)[v]);
        y[v] = largest;
      }
    }
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::infer
