// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What fprop and dgrad of engine `direct` decide about a layer before they run: which kernel, what
// is copied, how rows, channels, samples and filters are cut. ops/engines/direct/correlation.hpp
// runs it.
//
// The input gradient of a layer of stride t is t x t correlations of stride 1, one for each
// remainder of an output row's and column's index modulo t, each with the taps that reach it.
#pragma once

#include <cstddef>

#include <cordee/core/algorithm.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/direct/tiles/scratch.hpp>
#include <cordee/ops/engines/direct/tiles/tile.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Channels of an image that the kernel of the 3x3 window reads without padding them to a block.
inline constexpr int image_pitch = 3;

/// Rows first .. last-1.
struct row_range {
  int first = 0, last = 0;
  friend constexpr bool operator==(const row_range&, const row_range&) = default;
};

/// Sizes and pitches count numbers, unless they say otherwise.
struct correlation_plan {
  bool backward = false;  // dgrad: reads dy, writes dx
  extent in{}, out{};     // what the kernels read and write
  int window = 1, stride = 1, padding = 0;
  int in_step = 1, out_step = 1;  // pixels from one pixel of a tile to the next
  int gather_stride = 1;          // > 1: the pixels that a 1x1 window reads are copied together

  int block = 1;                      // channels to a block of the input
  int in_blocks = 0, out_blocks = 0;  // out_blocks: of V channels
  bool rows3x3 = false;               // the kernel of the 3x3 window with padding 1
  bool filter_pairs = false;          // two blocks of filters to a kernel call
  bool in_place = false;              // or else over bands that are copied with their padding
  int left_columns = 0;               // zeros before the image in a copied row
  int padded_columns = 0;             // columns of a copied row
  std::ptrdiff_t row_size = 0;        // of one block of the input, as the kernel reads it

  int cache_size = 0;      // of input that stays in the second-level cache
  int depth = 1;           // input blocks to a kernel call
  int rows = 0;            // of the output, of one remainder modulo out_step
  int band_rows = 0;       // and of these in a band
  int task_samples = 1;    // that share each reading of the weights
  std::size_t x_size = 0;  // of one sample in memory
  std::size_t y_size = 0;

  [[nodiscard]] constexpr bool gathers() const { return gather_stride > 1; }
  [[nodiscard]] constexpr std::size_t filter_pair_count() const {
    return (static_cast<std::size_t>(out_blocks) + 1) / 2;
  }
  [[nodiscard]] constexpr std::size_t sample_groups(int samples) const {
    const auto at_once = static_cast<std::size_t>(task_samples);
    return (static_cast<std::size_t>(samples) + at_once - 1) / at_once;
  }
  /// Parts of the filters, each a task for every group of samples: with few groups a slow worker
  /// would otherwise keep the others waiting.
  [[nodiscard]] constexpr std::size_t filter_parts(std::size_t groups, int workers) const {
    if (workers == 1 || !in_place || gathers() || groups == 0) return 1;
    return std::clamp(8 * static_cast<std::size_t>(workers) / groups, std::size_t{1},
                      filter_pair_count());
  }

  /// Blocks of the input whose `in_rows` rows of `samples` samples stay in the cache.
  [[nodiscard]] constexpr int cached_blocks(int samples, int in_rows) const {
    return cache_size / (samples * static_cast<int>(row_size) * in_rows);
  }
  /// Input blocks that all filters of a task pass over before the next ones are read, for a band of
  /// `out_rows` output rows.
  [[nodiscard]] constexpr int blocks_per_part(int samples, int out_rows) const {
    const int in_rows = (out_rows - 1) / out_step * in_step + window;
    const int cached = cached_blocks(samples, std::min(in.height, in_rows));
    return cached >= in_blocks || !in_place ? in_blocks : std::max(1, cached / depth) * depth;
  }
  /// The input rows that the taps of these output rows reach.
  [[nodiscard]] constexpr row_range input_rows(const row_range& y) const {
    const int first =
        backward ? (y.first + padding - window + 1) / stride : y.first * stride - padding;
    const int last =
        backward ? (y.last - 1 + padding) / stride + 1 : (y.last - 1) * stride + window - padding;
    const int low = std::clamp(first, 0, in.height);
    return {low, std::clamp(last, low, in.height)};
  }
};

/// For blocks of V channels of type Real.
template <class Real, int V>
constexpr correlation_plan plan_correlation(const convolution_problem& layer, bool backward) {
  constexpr int number = static_cast<int>(sizeof(Real));
  constexpr int weights_per_call = (many_registers<Real, V> ? 32768 : 16384) / number;
  const strided_pixels<V> gathered(layer);
  const convolution_problem p = gathered.dense_layer(layer);

  correlation_plan plan{.backward = backward,
                        .in = backward ? p.out() : p.in,
                        .out = backward ? p.in : p.out(),
                        .window = p.window,
                        .stride = p.stride,
                        .padding = p.padding,
                        .in_step = backward ? 1 : p.stride,
                        .out_step = backward ? p.stride : 1,
                        .gather_stride = gathered.stride,
                        .cache_size = 262144 / number};
  const bool full_output = channel_block_size<V>(plan.out.channels) == V;
  plan.block = channel_block_size<V>(plan.in.channels);
  plan.in_blocks = static_cast<int>(channel_blocks(plan.in.channels, plan.block));
  plan.out_blocks = static_cast<int>(channel_blocks(plan.out.channels, V));

  const bool image = plan.block == image_pitch && p.stride == 1 && !backward;
  plan.rows3x3 = p.window == 3 && p.padding == 1 && p.stride <= 2 && (plan.block == V || image);
  // Pairs read each pixel once for two blocks; an image's rows, and few registers behind a stride,
  // are better filled by twice the pixels.
  plan.filter_pairs =
      !plan.rows3x3 || (plan.block == V && (plan.out_step == 1 || many_registers<Real, V>));

  plan.left_columns =
      backward ? std::max(0, (p.window - 1 - p.padding + p.stride - 1) / p.stride) : p.padding;
  plan.padded_columns = backward
                            ? (plan.out.width - 1 + p.padding) / p.stride + 1 + plan.left_columns
                            : (plan.out.width - 1) * p.stride + p.window;
  plan.in_place = plan.rows3x3 || (plan.left_columns == 0 && plan.padded_columns <= plan.in.width);
  plan.row_size =
      std::ptrdiff_t{plan.block} * (plan.in_place ? plan.in.width : plan.padded_columns);

  const int taps = (p.window + plan.out_step - 1) / plan.out_step;
  plan.depth = std::max(1, weights_per_call / (taps * (plan.rows3x3 ? 3 : taps) * V * V * 2));

  plan.rows = (plan.out.height + plan.out_step - 1) / plan.out_step;
  // What is read in place can be taken in parts of the channels, if y is not read and written too
  // often for it.
  const int blocks =
      plan.in_place ? std::min(plan.in_blocks, std::max(plan.depth, 8)) : plan.in_blocks;
  const auto cached_rows = static_cast<int>(plan.cache_size / (plan.row_size * blocks));
  plan.band_rows = std::min(
      plan.rows, std::max((cached_rows - p.window) / plan.in_step + 1, std::min(plan.rows, 4)));

  // The large layers over small images: several samples share each reading of the weights.
  if (plan.in_place && plan.band_rows == plan.rows && full_output)
    plan.task_samples =
        std::clamp(plan.cached_blocks(1, plan.in.height) / plan.depth, 1, plan.gathers() ? 2 : 4);

  const std::size_t strided = sample_size(gathered.in, V);
  plan.x_size = plan.gathers() && !backward ? strided : sample_size(plan.in, plan.block);
  plan.y_size = plan.gathers() && backward
                    ? strided
                    : sample_size(plan.out, channel_block_size<V>(plan.out.channels));
  return plan;
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
