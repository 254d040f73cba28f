// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What wgrad of engine `direct` decides about a layer before it runs: which tile, how samples and
// filters are shared out, and its workspace. ops/engines/direct/weight_gradient.hpp runs it.
#pragma once

#include <cstddef>

#include <cordee/core/algorithm.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/direct/tiles/packed_form.hpp>
#include <cordee/ops/engines/direct/tiles/scratch.hpp>
#include <cordee/ops/engines/direct/tiles/wgrad_tile.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The tiles of wgrad_tile.hpp, by what they sum over at once.
enum class wgrad_kernel {
  single_tap,    // any window, tap by tap over the pixels that it reaches
  rows3x3,       // the three taps of a window row, padding 1
  image3x3,      // all nine taps, few channels
  padded_image,  // any window, few channels: three window rows over a padded copy
};

/// Sizes count numbers.
struct weight_gradient_plan {
  convolution_problem layer{};  // without its stride where gather_stride > 1
  extent out{};
  int gather_stride = 1;  // > 1: the pixels that a 1x1 window reads are copied together
  int samples = 0;
  int V = 1;  // channels and filters to a block

  wgrad_kernel kernel = wgrad_kernel::single_tap;
  bool widen_output_gradient = false;  // dy of few filters is copied in blocks of V
  int cache_size = 0;                  // of x and dy that stays in the cache
  int filter_blocks = 0;
  int filter_parts = 1;             // tasks over the filters, as equal as can be
  int groups = 1;                   // of samples, each with sums of its own if there are several
  std::size_t gathered_size = 0;    // the workspace: the gathered pixels of all samples,
  std::size_t group_sums_size = 0;  // then the sums of each group

  [[nodiscard]] constexpr std::size_t workspace() const { return gathered_size + group_sums_size; }
  [[nodiscard]] constexpr bool gathers() const { return gather_stride > 1; }

  /// Filter blocks, out of `blocks` of a task, that pass over a band before the next ones. One
  /// block leaves room for longer sums; behind a stride x is larger, and is read once for all.
  [[nodiscard]] constexpr int blocks_at_once(int blocks) const {
    return kernel == wgrad_kernel::rows3x3 && layer.stride == 1 ? 1 : blocks;
  }
  /// Samples, out of `count` of a group, in one pass of a tile.
  [[nodiscard]] constexpr int samples_at_once(int blocks, int count) const {
    if (widen_output_gradient || kernel == wgrad_kernel::padded_image) return 1;
    if (kernel == wgrad_kernel::image3x3) return count;
    const std::size_t dy = static_cast<std::size_t>(kernel == wgrad_kernel::rows3x3 ? 1 : blocks);
    const auto pixels = static_cast<int>(layer.in.pixels() + dy * out.pixels());
    return std::max(1, cache_size / (V * pixels));
  }
  /// The output rows (or columns) that tap r reaches from inside the image: the first, and one past
  /// the last of `outputs` for an input of `inputs` rows (columns).
  [[nodiscard]] constexpr int first_output(int r) const {
    return std::max(0, (layer.padding - r + layer.stride - 1) / layer.stride);
  }
  [[nodiscard]] constexpr int last_output(int r, int inputs, int outputs) const {
    const int end = inputs + layer.padding - r;  // outputs i with i t < end
    return end <= 0 ? 0 : std::min(outputs, (end + layer.stride - 1) / layer.stride);
  }
  /// Rows of dy in a band of so many samples.
  [[nodiscard]] constexpr int band_rows(int blocks, int count) const {
    if (kernel == wgrad_kernel::padded_image) return std::max(1, cache_size / (2 * V * out.width));
    const int row = V * (layer.in.width * layer.stride + blocks_at_once(blocks) * out.width);
    const int most = std::max(1, cache_size / (row * count));
    const int bands = (out.height + most - 1) / most;
    return (out.height + bands - 1) / bands;  // as equal as can be
  }
};

/// For blocks of V channels of type Real.
template <class Real, int V>
constexpr weight_gradient_plan plan_weight_gradient(const convolution_problem& layer, int samples) {
  const strided_pixels<V> gathered(layer);
  const convolution_problem p = gathered.dense_layer(layer);
  const bool image = p.in.channels <= 4;
  const bool rows3x3 = p.window == 3 && p.padding == 1 && p.stride <= 2;

  weight_gradient_plan plan{.layer = p,
                            .out = p.out(),
                            .gather_stride = gathered.stride,
                            .samples = samples,
                            .V = V,
                            .widen_output_gradient = channel_block_size<V>(p.filters) != V,
                            .filter_blocks = static_cast<int>(channel_blocks(p.filters, V))};
  if (image && rows3x3 && p.stride == 1 && p.in.channels % image_channels<Real, V> == 0)
    plan.kernel = wgrad_kernel::image3x3;
  else if (image)
    plan.kernel = wgrad_kernel::padded_image;
  else if (rows3x3)
    plan.kernel = wgrad_kernel::rows3x3;

  // The first-level cache. Three taps at stride 1, and one over two blocks of many registers, read
  // so little for each product that the second-level cache serves them, and sums are longer.
  const bool reads_little = rows3x3 || (p.window == 1 && sizeof(Real) * V == 64);
  plan.cache_size =
      (reads_little && p.stride == 1 ? 131072 : 32768) / static_cast<int>(sizeof(Real));

  // Eight tasks or more, however many workers there are, so that the groups and with them the
  // results' bits do not depend on the workers.
  const int most = rows3x3 || image ? 2 : max_filter_blocks<Real, V>;
  plan.filter_parts = (plan.filter_blocks + most - 1) / most;
  plan.groups = std::clamp(samples, 1, std::max(1, 8 / plan.filter_parts));

  const packed_form<V> form{p.filters, p.in.channels, p.window};
  if (plan.gathers()) plan.gathered_size = static_cast<std::size_t>(samples) * sample_size(p.in, V);
  if (plan.groups > 1) plan.group_sums_size = static_cast<std::size_t>(plan.groups) * form.size();
  return plan;
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
