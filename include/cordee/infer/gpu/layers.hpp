// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The layers of an integer network on a GPU that are not convolutions, as
// infer/program/integer_layers.hpp defines them. Activations are (N, H, W, C'), with C' the
// channels padded to a multiple of 16, as tensor cores read bytes. Positions are computed in 31
// bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <cordee/core/extent.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/infer/gpu/requantize_epilogue.hpp>
#include <cordee/infer/program/integer_layers.hpp>
#include <cordee/ops/engines/tensor_core/mma_type.hpp>
#include <cordee/ops/fast_divisor.hpp>
#include <cordee/ops/gpu/vec_16b.hpp>
#include <cordee/ops/pooling.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// Channels as they lie in memory.
constexpr int padded_channels(int channels) {
  return ops::tensor_core_channels<std::uint8_t>(channels);
}

/// Where groups of `Size` channels lie.
template <int Size>
struct channel_groups {
  int height, width, lanes;  // lanes: C'
  ops::fast_divisor by_groups = ops::fast_divisor(lanes / Size),
                    by_width = ops::fast_divisor(width), by_height = ops::fast_divisor(height);

  explicit channel_groups(const extent& e)
      : height(e.height), width(e.width), lanes(padded_channels(e.channels)) {}

  struct position {
    int sample, row, column, channel;
  };
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr position position_of(int i) const {
    const int pixel = by_groups.quotient(i), line = by_width.quotient(pixel),
              sample = by_height.quotient(line);
    return {sample, line - sample * height, pixel - line * width,
            (i - pixel * by_groups.divisor) * Size};
  }
  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::size_t offset(const position& p) const {
    const int pixel = (p.sample * height + p.row) * width + p.column;
    return static_cast<std::size_t>(pixel) * static_cast<std::size_t>(lanes) +
           static_cast<std::size_t>(p.channel);
  }
};

/// Pixel i of the first layer's bytes, of images (N, C, H, W) of at most 4 channels by the table
/// (C, 256).
struct read_image_op {
  int channels;
  std::size_t pixels;  // of an image
  ops::fast_divisor by_pixels = ops::fast_divisor(static_cast<int>(pixels));
  const std::uint8_t *table, *images;
  std::uint8_t* q;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    const auto sample = static_cast<std::size_t>(by_pixels.quotient(static_cast<int>(i)));
    const std::uint8_t* const from =
        images + sample * static_cast<std::size_t>(channels) * pixels + (i - sample * pixels);
    std::uint8_t out[16] = {};
    for (int c = 0; c < 4; ++c)
      if (c < channels) out[c] = table[c * 256 + from[static_cast<std::size_t>(c) * pixels]];
    ops::store_unit(out, q + 16 * i);
  }
};

/// Group i of the bytes that a convolution makes of an input of 32 bits.
struct to_bytes_op {
  ops::fixed_point factor;
  int zero_point;
  const std::int32_t* x;
  std::uint8_t* q;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    std::int32_t in[4];
    std::uint8_t out[4];
    ops::load_unit(x + 4 * i, in);
    for (int k = 0; k < 4; ++k) {
      const std::int64_t v = ops::rescaled(std::int64_t{in[k]}, factor) + zero_point;
      out[k] = static_cast<std::uint8_t>(v < 0 ? 0 : v > 255 ? 255 : v);
    }
    ops::store_unit(out, q + 4 * i);
  }
};

/// K and B of a channel, loaded by one access.
struct alignas(16) norm_factor {
  std::int64_t multiplier = 0, addend = 0;
};
/// Group i of a batch norm's outputs.
template <Activation Out>
struct integer_batch_norm_op {
  ops::fast_divisor by_groups;  // C' / 4
  int shift;
  const norm_factor* factors;  // (C')
  output_form form;
  const std::int32_t* x;
  Out* y;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    const int n = static_cast<int>(i);
    const int channel = (n - by_groups.quotient(n) * by_groups.divisor) * 4;
    std::int32_t in[4];
    std::int64_t v[4];
    ops::load_unit(x + 4 * i, in);
    for (int k = 0; k < 4; ++k) {
      const norm_factor f = factors[channel + k];
      v[k] = (f.multiplier * in[k] + f.addend) >> shift;
    }
    form.store(v, 4 * i, y);
  }
};

/// Group i of the maxima, of 16 bytes.
template <Activation A>
struct integer_max_pool_op {
  static constexpr int group = 16 / static_cast<int>(sizeof(A));
  ops::max_pool_problem p;
  channel_groups<group> in, out;
  const A* x;
  A* y;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    const auto at = out.position_of(static_cast<int>(i));
    const auto [r0, r1] = p.taps(at.row, p.in.height);
    const auto [s0, s1] = p.taps(at.column, p.in.width);
    A largest[std::size_t{group}];
    for (A& v : largest) v = std::numeric_limits<A>::min();
    for (int r = r0; r < r1; ++r)
      for (int s = s0; s < s1; ++s) {
        A from[std::size_t{group}];
        ops::load_unit(x + in.offset({at.sample, at.row * p.stride - p.padding + r,
                                      at.column * p.stride - p.padding + s, at.channel}),
                       from);
        for (int k = 0; k < group; ++k) largest[k] = largest[k] < from[k] ? from[k] : largest[k];
      }
    ops::store_unit(largest, y + static_cast<std::size_t>(group) * i);
  }
};

/// Number i of a shortcut of option A, which has 32 bits.
struct integer_subsample_op {
  ops::subsample_problem p;
  channel_groups<1> in, out;
  const std::int32_t* x;
  std::int32_t* y;

  CORDEE_DEVICE void operator()(std::size_t i) const {
    const auto at = out.position_of(static_cast<int>(i));
    const int c = p.source(at.channel);
    const bool present = c >= 0 && c < p.in.channels;
    y[i] = present ? x[in.offset({at.sample, at.row * p.stride, at.column * p.stride, c})] : 0;
  }
};

/// Channel i of the samples' means. Divides a sum that is not negative: by 2^23 too large, as
/// activations are within it.
struct integer_mean_op {
  int pixels, lanes;
  ops::fast_divisor by_lanes = ops::fast_divisor(lanes);
  ops::fast_wide_divisor by_pixels = ops::fast_wide_divisor(pixels);
  const std::int32_t* x;  // (N, pixels, lanes)
  std::int32_t* y;        // (N, lanes)

  CORDEE_DEVICE void operator()(std::size_t i) const {
    const int n = static_cast<int>(i), sample = by_lanes.quotient(n);
    const std::int32_t* from =
        x + static_cast<std::size_t>(sample * pixels) * static_cast<std::size_t>(lanes) +
        (n - sample * lanes);
    std::int64_t sum = (pixels >> 1) + std::int64_t{wide_limit} * pixels;
    for (int p = 0; p < pixels; ++p, from += lanes) sum += *from;
    y[i] =
        static_cast<std::int32_t>(by_pixels.quotient(static_cast<std::uint64_t>(sum)) - wide_limit);
  }
};

/// Loaded by one access.
struct alignas(16) class_rescaling {
  std::int64_t bias = 0;
  ops::fixed_point factor;
};
/// A block computes 32 logits of one sample; its warps share the features.
struct integer_classifier_kernel {
  static constexpr int threads = 256, across = 32, slices = threads / across;
  int features, lanes, classes, shift;
  const std::int32_t* x;           // (N, lanes)
  const std::int16_t* w;           // (features, classes)
  const class_rescaling* rescale;  // (classes)
  std::int32_t* logits;            // (N, classes)
  ops::fast_divisor by_tiles = ops::fast_divisor((classes + across - 1) / across);

  [[nodiscard]] static constexpr std::size_t shared_bytes() {
    return threads * sizeof(std::int64_t);
  }
  /// Tiles of one sample.
  [[nodiscard]] constexpr std::size_t tiles() const {
    return static_cast<std::size_t>(by_tiles.divisor);
  }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    auto* const sums = b.template shared<std::int64_t>(threads);
    const int block = static_cast<int>(b.index()), sample = by_tiles.quotient(block);
    const int k = (block - sample * by_tiles.divisor) * across + b.thread() % across;
    const std::int32_t* const in = x + std::ptrdiff_t{sample} * lanes;
    std::int64_t sum = 0;
    if (k < classes)
      for (int f = b.thread() / across; f < features; f += slices)
        sum += std::int64_t{in[f]} * w[static_cast<std::ptrdiff_t>(f) * classes + k];
    sums[b.thread()] = sum;
    b.sync();
    if (b.thread() >= across || k >= classes) return;
    const class_rescaling r = rescale[k];
    sum = r.bias;
    for (int slice = 0; slice < slices; ++slice) sum += sums[slice * across + b.thread()];
    if (shift > 0) sum = (sum + (std::int64_t{1} << (shift - 1))) >> shift;
    logits[std::ptrdiff_t{sample} * classes + k] =
        static_cast<std::int32_t>(ops::rescaled(sum, r.factor));
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::infer
