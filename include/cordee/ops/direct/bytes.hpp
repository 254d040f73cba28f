// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Engine `direct`'s convolution of bytes (ops/convolution_bytes.hpp).
//
// The image of the weights is (K / V, C / B, R, S, B / 4, V, 4), and behind it are each filter's
// sum, which times the zero point is where its sums begin. A sample is quantised into padded rows
// of bytes, a quarter of a float's, which stay in the second-level cache: so windows, strides and
// paddings are all one walk along lines of S B bytes. Sums are scaled while they are near.
#pragma once

#include <algorithm>
#include <cstring>

#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution_bytes.hpp>
#include <cordee/ops/direct/byte_tile.hpp>
#include <cordee/ops/direct/storage.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

template <int V, bool Dots>
class byte_correlation {
 public:
  explicit byte_correlation(const convolution_problem& p)
      : p_(p),
        out_(p.out()),
        block_(direct_block<V>(p.in.channels)),
        pitch_(block_ == V ? V : 4),
        blocks_(static_cast<int>(blocks_of(p.in.channels, block_))),
        filter_blocks_(static_cast<int>(blocks_of(p.filters, V))),
        rows_((out_.height - 1) * p.stride + p.window),
        columns_((out_.width - 1) * p.stride + p.window) {}

  [[nodiscard]] std::size_t packed_size() const {
    return static_cast<std::size_t>(filter_blocks_) *
           (static_cast<std::size_t>(block_size()) + V * sizeof(std::int32_t));
  }
  void pack(const std::int8_t* weights, std::int8_t* image) const {
    std::fill(image, image + packed_size(), std::int8_t{0});
    for (int k = 0; k < p_.filters; ++k) {
      std::int32_t sum = 0;
      for (int c = 0; c < p_.in.channels; ++c)
        for (int tap = 0; tap < p_.window * p_.window; ++tap, ++weights) {
          const int inside = c % block_;
          const std::ptrdiff_t line =
              (std::ptrdiff_t{c / block_} * p_.window * p_.window + tap) * pitch_ / 4 + inside / 4;
          image[k / V * block_size() + (line * V + k % V) * 4 + inside % 4] = *weights;
          sum += *weights;
        }
      std::memcpy(image + filter_blocks_ * block_size() + std::ptrdiff_t{k} * 4, &sum, 4);
    }
  }

  template <ByteSource In, SumSink Out>
  void run(int samples, const In* x, const affine<float>& k, const std::int8_t* image,
           const float* scales, Out* y, cpu::stream s) const {
    const std::size_t x_size = sample_size(p_.in, block_),
                      y_size = sample_size(out_, direct_block<V>(p_.filters));
    parallel(s, static_cast<std::size_t>(samples), 1, [&](std::size_t first, std::size_t last) {
      thread_local memory mine;
      const std::size_t filters = static_cast<std::size_t>(filter_blocks_) * V;
      ends ends{mine.begin.reserve(filters), mine.scales.reserve(filters)};
      for (std::size_t f = 0; f < filters; ++f) {
        const bool there = f < static_cast<std::size_t>(p_.filters);
        std::int32_t sum;
        std::memcpy(&sum, image + filter_blocks_ * block_size() + 4 * f, 4);
        ends.begin[f] = -k.zero * sum;
        ends.scales[f] = std::same_as<Out, float> && there ? k.scale * scales[f] : 0;
      }
      const bool narrow = direct_block<V>(p_.filters) != V;
      auto* const wide =
          reinterpret_cast<Out*>(narrow ? mine.wide.reserve(filters * out_.pixels()) : nullptr);
      const auto bytes = static_cast<std::size_t>(plane() * blocks_);
      std::uint8_t* const padded = mine.padded.reserve(bytes + V);
      std::memset(padded, k.zero, bytes);  // samples leave what is around the image
      std::uint8_t* const near =
          mine.near.reserve(static_cast<std::size_t>(p_.in.width * block_) + 4);
      for (std::size_t n = first; n < last; ++n) {
        put(x + n * x_size, k, near, padded);
        sample(padded, image, ends, n + 1 < last ? x + (n + 1) * x_size : nullptr,
               x_size * sizeof(In), narrow ? wide : y + n * y_size);
        if (!narrow) continue;
        const auto wanted = static_cast<std::size_t>(p_.filters);
        for (std::size_t at = 0; at < out_.pixels(); ++at)
          std::copy_n(wide + at * V, wanted, y + n * y_size + at * wanted);
      }
    });
  }

 private:
  struct memory {
    scratch<std::uint8_t> padded, near;
    scratch<std::int32_t> begin, wide;
    scratch<float> scales;
  };
  struct ends {
    std::int32_t* begin;
    float* scales;
  };

  [[nodiscard]] std::ptrdiff_t block_size() const {
    return std::ptrdiff_t{V} * blocks_ * p_.window * p_.window * pitch_;
  }
  [[nodiscard]] std::ptrdiff_t row() const { return std::ptrdiff_t{pitch_} * columns_; }
  [[nodiscard]] std::ptrdiff_t plane() const { return row() * rows_; }

  /// The image into its place among the rows and columns that windows meet.
  template <ByteSource In>
  void put(const In* x, const affine<float>& k, std::uint8_t* near, std::uint8_t* to) const {
    const int left = std::min(columns_, p_.padding), top = p_.padding,
              pixels = std::clamp(columns_ - left, 0, p_.in.width),
              rows = std::clamp(rows_ - top, 0, p_.in.height);
    const byte_lanes<V> by(k);
    for (int b = 0; b < blocks_; ++b)
      for (int h = 0; h < rows; ++h)
        line(x + (std::ptrdiff_t{b} * p_.in.height + h) * p_.in.width * block_, pixels, by, near,
             to + b * plane() + (top + h) * row() + left * pitch_);
  }
  template <ByteSource In>
  void line(const In* from, int pixels, const byte_lanes<V>& by, std::uint8_t* near,
            std::uint8_t* to) const {
    const int n = pixels * block_;
    std::uint8_t* const bytes = block_ == V ? to : near;
    if constexpr (std::same_as<In, float>) {
      int i = 0;
      for (; i + V <= n; i += V) by.quantise(from + i, bytes + i);
      for (; i < n; ++i) bytes[i] = static_cast<std::uint8_t>(by.k.quantise(from[i]));
    } else {
      std::memcpy(bytes, from, static_cast<std::size_t>(n));
    }
    if (block_ != V)  // four bytes from where each pixel begins: what is not its own meets zeros
      for (int j = 0; j < pixels; ++j) std::memcpy(to + 4 * j, near + j * block_, 4);
  }

  template <SumSink Out>
  void sample(const std::uint8_t* x, const std::int8_t* image, const ends& ends, const void* next,
              std::size_t next_size, Out* y) const {
    const int longest = filter_blocks_ > 1 ? longest_tile<2> : longest_tile<1>,
              passes = out_.height * ((out_.width + longest - 1) / longest) * blocks_ * p_.window,
              lines = (static_cast<int>(next_size) / 64 + passes - 1) / passes;
    for (int f = 0; f < filter_blocks_; f += 2) {
      const auto kernel = f + 1 < filter_blocks_ ? tiles<2, Out> : tiles<1, Out>;
      byte_tile<Out> at{.x_step = std::ptrdiff_t{pitch_} * p_.stride,
                        .x_row = row(),
                        .x_block = plane(),
                        .w = image + f * block_size(),
                        .w_block = block_size(),
                        .begin = ends.begin + f * V,
                        .scales = ends.scales + f * V,
                        .y_block = static_cast<std::ptrdiff_t>(out_.pixels()) * V,
                        .y_row = std::ptrdiff_t{V} * out_.width,
                        .blocks = blocks_,
                        .rows = p_.window,
                        .steps = p_.window * pitch_ / 4,
                        .next = static_cast<const char*>(next),
                        .lines = next != nullptr && f == 0 ? lines : 0,
                        .slides = p_.window == 3 && p_.stride == 1 && pitch_ == V};
      for (int i = 0; i < out_.height; ++i) {
        at.x = x + std::ptrdiff_t{i} * p_.stride * row();
        at.y = y + f * at.y_block + i * at.y_row;
        kernel(at, out_.width);
      }
    }
  }

  template <int Blocks>
  static constexpr int longest_tile = std::min(16, tile_registers<std::int32_t, V> / Blocks);
  template <int Blocks, class Out>
  static void tiles(byte_tile<Out>& at, int pixels) {
    const byte_tile<Out> all = at;
    cover<longest_tile<Blocks>>(
        lengths<16, 14, 8, 7, 4, 1>{}, pixels, [&]<int Pixels>(int done, int tiles) {
          at.x = all.x + done * all.x_step;
          at.y = all.y + done * V;
          constexpr bool loads = Blocks == 1 && Pixels == 16;  // are what such a tile waits for
          const auto kernel = loads && at.slides ? byte_sums<V, Dots, Blocks, Pixels, loads, Out>
                                                 : byte_sums<V, Dots, Blocks, Pixels, false, Out>;
          for (; tiles > 0; --tiles, at.x += Pixels * all.x_step, at.y += Pixels * V) kernel(at);
        });
  }

  convolution_problem p_;
  extent out_;
  int block_, pitch_, blocks_;  // channels to a block of x, its bytes to a pixel, and how many
  int filter_blocks_;
  int rows_, columns_;  // of a padded image
};

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
