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
      std::uint8_t* const padded = mine.padded.reserve(
          static_cast<std::size_t>(plane()) * static_cast<std::size_t>(blocks_) + V);
      for (std::size_t n = first; n < last; ++n) {
        pad(x + n * x_size, k, padded);
        sample(padded, image, ends, n + 1 < last ? x + (n + 1) * x_size : nullptr,
               narrow ? wide : y + n * y_size);
        if (!narrow) continue;
        const auto wanted = static_cast<std::size_t>(p_.filters);
        for (std::size_t at = 0; at < out_.pixels(); ++at)
          std::copy_n(wide + at * V, wanted, y + n * y_size + at * wanted);
      }
    });
  }

 private:
  struct memory {
    scratch<std::uint8_t> padded;
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

  /// The rows and columns that windows meet, with the zero point where the image is not.
  template <ByteSource In>
  void pad(const In* x, const affine<float>& k, std::uint8_t* to) const {
    const int left = std::min(columns_, p_.padding),
              inside = std::clamp(columns_ - left, 0, p_.in.width);
    for (int b = 0; b < blocks_; ++b)
      for (int i = 0; i < rows_; ++i, to += row()) {
        const int h = i - p_.padding;
        const bool there = h >= 0 && h < p_.in.height;
        const int first = there ? left : columns_, last = there ? left + inside : columns_;
        std::memset(to, k.zero, static_cast<std::size_t>(first * pitch_));
        std::memset(to + last * pitch_, k.zero,
                    static_cast<std::size_t>((columns_ - last) * pitch_));
        if (!there) continue;
        const In* const from = x + (std::ptrdiff_t{b} * p_.in.height + h) * p_.in.width * block_;
        line(from, last - first, k, to + first * pitch_);
      }
  }
  template <ByteSource In>
  void line(const In* from, int pixels, const affine<float>& k, std::uint8_t* to) const {
    if (block_ != V) {  // four bytes from where each pixel begins: what is not its own meets zeros
      thread_local scratch<std::uint8_t> mine;
      const int n = pixels * block_;
      std::uint8_t* const near = mine.reserve(static_cast<std::size_t>(n) + 4);
      int i = 0;
      if constexpr (std::same_as<In, float>)
        for (; i + V <= n; i += V) quantise_lanes<V>(from + i, k, near + i);
      for (; i < n; ++i) near[i] = static_cast<std::uint8_t>(byte_of(from[i], k));
      for (int j = 0; j < pixels; ++j) std::memcpy(to + 4 * j, near + j * block_, 4);
    } else if constexpr (std::same_as<In, float>) {
      for (int j = 0; j < pixels; ++j) quantise_lanes<V>(from + j * V, k, to + j * V);
    } else {
      std::memcpy(to, from, static_cast<std::size_t>(pixels) * V);
    }
  }

  template <SumSink Out>
  void sample(const std::uint8_t* x, const std::int8_t* image, const ends& ends, const void* next,
              Out* y) const {
    const bool usual = p_.stride * pitch_ == V;
    for (int f = 0; f < filter_blocks_; f += 2) {
      const bool pair = f + 1 < filter_blocks_;
      const auto kernel = usual  ? pair ? tiles<V, 2> : tiles<V, 1>
                           : pair ? tiles<0, 2>
                                 : tiles<0, 1>;
      byte_tile at{.x_step = std::ptrdiff_t{pitch_} * p_.stride,
                   .x_row = row(),
                   .x_block = plane(),
                   .w = image + f * block_size(),
                   .w_block = block_size(),
                   .begin = ends.begin + f * V,
                   .y_block = static_cast<std::ptrdiff_t>(out_.pixels()) * V,
                   .y_row = std::ptrdiff_t{V} * out_.width,
                   .blocks = blocks_,
                   .rows = p_.window,
                   .steps = p_.window * pitch_ / 4,
                   .next = static_cast<const char*>(f == 0 ? next : nullptr)};
      for (int i = 0; i < out_.height; ++i) {
        at.x = x + std::ptrdiff_t{i} * p_.stride * row();
        std::int32_t* const row = reinterpret_cast<std::int32_t*>(
            y + f * at.y_block + std::ptrdiff_t{V} * i * out_.width);
        at.y = row;
        kernel(at, out_.width);
        if constexpr (std::same_as<Out, float>)
          for (int b = 0; b < (pair ? 2 : 1); ++b)
            dequantise(row + b * at.y_block, load<float, V>(ends.scales + (f + b) * V));
      }
    }
  }
  /// A row of sums becomes the numbers that they stand for, where it lies.
  void dequantise(std::int32_t* row, vec<float, V> scale) const {
    for (int j = 0; j < out_.width; ++j, row += V)
      store<float, V>(reinterpret_cast<float*>(row),
                      scale * __builtin_convertvector(load<std::int32_t, V>(row), vec<float, V>));
  }

  template <int Step, int Blocks>
  static void tiles(byte_tile& at, int pixels) {
    const byte_tile all = at;
    cover<std::min(16, tile_registers<std::int32_t, V> / Blocks)>(
        lengths<16, 14, 8, 7, 4, 1>{}, pixels, [&]<int Pixels>(int done, int tiles) {
          at.x = all.x + done * all.x_step;
          at.y = all.y + done * V;
          for (; tiles > 0; --tiles, at.x += Pixels * all.x_step, at.y += Pixels * V)
            byte_sums<V, Dots, Step, Blocks, Pixels>(at);
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
