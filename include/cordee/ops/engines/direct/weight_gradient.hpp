// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// wgrad of engine `direct`: runs a weight_gradient_plan.
//
//   dw[k, c, r, s] = sum over samples and pixels of  dy[k, i, j] x[c, i t + r - p, j t + s - p]
//
// Every tap sums over the pixels that exist for it, so nothing is padded, in bands of rows that
// stay in a cache from tap to tap (the plan's cache_size); of small images a pass takes several
// samples. An image of few channels is read in place by all nine taps at once, or copied into
// padded rows, of which a tile takes three, or one for two blocks of filters; the pixels that a 1x1
// window reads behind a stride are copied together. The sums of a fixed number of groups of samples
// are added in order: the result does not depend on the number of workers. Before a pass over them
// samples of a 16-bit N are widened, or made to pairs.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include <cordee/core/algorithm.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/direct/tiles/bfloat_dot.hpp>
#include <cordee/ops/engines/direct/tiles/packed_form.hpp>
#include <cordee/ops/engines/direct/tiles/rows3x3.hpp>
#include <cordee/ops/engines/direct/tiles/scratch.hpp>
#include <cordee/ops/engines/direct/tiles/weight_gradient_plan.hpp>
#include <cordee/ops/engines/direct/tiles/wgrad_tile.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

template <class N, int V, bool Pairs = false>
class weight_gradient {
  using Real = precision::wide<N>;
  using X = std::conditional_t<Pairs, bfloat_pair, Real>;  // of products

 public:
  weight_gradient(const convolution_problem& p, int samples)
      : plan_(plan_weight_gradient<Real, V>(p, samples)),
        strided_(p),
        form_{p.filters, p.in.channels, p.window} {}

  [[nodiscard]] const weight_gradient_plan& plan() const { return plan_; }

  void run(const N* x,   // (N, C/B, H, W, B)
           const N* dy,  // (N, K/B, H', W', B)
           Real* dw,     // (K, C, R, S)
           write_mode mode,
           Real* workspace,  // (N, C/V, H', W', V) behind a stride, (groups, packed weights)
           cpu::stream s) const {
    if (!plan_.gathers()) return run_groups(x, dy, dw, mode, workspace, s);
    auto* const dense =  // (N, C/V, H', W', V)
        reinterpret_cast<std::conditional_t<Pairs, N, Real>*>(workspace);
    device::parallel_dynamic(s, static_cast<std::size_t>(plan_.samples), [&](std::size_t n) {
      strided_.gather(x + n * sample_size(strided_.in, V),
                      dense + n * sample_size(plan_.layer.in, V));
    });
    run_groups(dense, dy, dw, mode, workspace, s);
  }

 private:
  /// x (N, C/B, H, W, B) of plan_.layer, dy (N, K/B, H', W', B), dw (K, C, R, S).
  template <class In>
  void run_groups(const In* x, const N* dy, Real* dw, write_mode mode, Real* workspace,
                  cpu::stream s) const {
    const auto samples = static_cast<std::size_t>(plan_.samples),
               groups = static_cast<std::size_t>(plan_.groups),
               blocks = static_cast<std::size_t>(plan_.filter_blocks),
               parts = static_cast<std::size_t>(plan_.filter_parts),
               block_size = static_cast<std::size_t>(form_.block_size());
    Real* const sums = workspace + plan_.gathered_size;  // (groups, K/V, C/B, R, S, B, V)
    device::parallel_dynamic(s, groups * parts, [&](std::size_t task) {
      thread_local scratch<Real> single;  // (filter blocks of a part, C/B, R, S, B, V)
      const std::size_t group = task / parts, part = task % parts;
      const auto begin = samples * group / groups, end = samples * (group + 1) / groups;
      const std::size_t first = blocks * part / parts, last = blocks * (part + 1) / parts;
      // The sums of a single group go to dw at once, while they are in the cache.
      Real* const sum = groups > 1 ? sums + group * form_.size() + first * block_size
                                   : single.reserve((last - first) * block_size);
      sum_samples(static_cast<int>(begin), static_cast<int>(end), static_cast<int>(first),
                  static_cast<int>(last - first), x, dy, sum);
      if (groups == 1) form_.unpack(first, last, sum, dw, mode);
    });
    if (groups == 1) return;
    device::parallel_chunks(s, blocks, 1, [&](std::size_t first, std::size_t last) {
      for (std::size_t group = 1; group < groups; ++group)  // in order
        for (std::size_t i = first * block_size; i < last * block_size; i += V)
          store<Real, V>(sums + i,
                         load<Real, V>(sums + i) + load<Real, V>(sums + group * form_.size() + i));
      form_.unpack(first, last, sums + first * block_size, dw, mode);
    });
  }

  static constexpr int row_channels = channels_per_tile<Real, V>(3),  // of a tile of three taps
      calls = V / row_channels;

  struct thread_memory {
    scratch<X> padded, widened;  // (H + padding, W + padding, C); (K/V, H', W', V)
    scratch<X> x, dy;            // of 16-bit N: (n, C/B, H, W, B); (n, K/B, H', W', B)
  };

  /// sum (blocks, C/B, R, S, B, V) = the gradient of samples begin .. end-1, filter blocks from k.
  template <class In>
  void sum_samples(int begin, int end, int k, int blocks, const In* x, const N* dy,
                   Real* sum) const {
    thread_local thread_memory memory;
    const convolution_problem& p = plan_.layer;
    // The first band under a 1x1 window without padding overwrites. Elsewhere a band, or a tap, may
    // reach no pixel and write nothing, so the sums are cleared.
    const bool overwrites =
        plan_.kernel == wgrad_kernel::single_tap && p.window == 1 && p.padding == 0 && begin < end;
    if (!overwrites) std::fill(sum, sum + blocks * form_.block_size(), Real{});
    const extent& out = plan_.out;
    const auto size_of = [](const extent& e) {
      return static_cast<std::ptrdiff_t>(sample_size(e, channel_block_size<V>(e.channels)));
    };
    const std::ptrdiff_t x_size = size_of(p.in), dy_size = size_of(out),
                         dy_block = static_cast<std::ptrdiff_t>(out.pixels()) * V;
    const bool all = plan_.widen_output_gradient;
    const std::ptrdiff_t dy_first = all ? 0 : k * dy_block,
                         dy_last = all ? dy_size : dy_first + blocks * dy_block;
    int at_once = plan_.samples_at_once(blocks, end - begin);  // of X, which may be two of N
    if constexpr (precision::StorageOnly<N>) {
      constexpr std::ptrdiff_t most = 131072;  // numbers of copies that stay in the cache
      at_once = static_cast<int>(
          std::clamp<std::ptrdiff_t>(most / (x_size + dy_last - dy_first), 1, at_once));
    }
    if constexpr (Pairs) at_once *= 2;
    for (int n = begin; n < end; n += at_once) {
      const int samples = std::min(at_once, end - n);
      const auto count = static_cast<std::size_t>(samples),
                 x_numbers = static_cast<std::size_t>(x_size);
      const X* d = operands_of<X>(dy + n * dy_size, count, static_cast<std::size_t>(dy_size),
                                  static_cast<std::size_t>(dy_first),
                                  static_cast<std::size_t>(dy_last), memory.dy);
      if (all) d = widen_channels<V>(d, p.filters, out.pixels(), memory.widened);
      d += k * dy_block;
      const X* const first =
          operands_of<X>(x + n * x_size, count, x_numbers, 0, x_numbers, memory.x);
      const pixel_area area{.samples = Pairs ? (samples + 1) / 2 : samples,
                            .x_sample = x_size,
                            .dy_sample = dy_size,
                            .dy_row = std::ptrdiff_t{V} * out.width,
                            .dy_block = dy_block,
                            .dw_block = form_.block_size(),
                            .add = !overwrites || n > begin};
      if (plan_.kernel == wgrad_kernel::image3x3)
        for (int b = 0; b < blocks; ++b)
          run_image3x3(area, first, d + b * dy_block, sum + b * form_.block_size());
      else if (plan_.kernel == wgrad_kernel::padded_image)
        run_padded_image(area, pad_image(p, first, memory.padded), d, sum, blocks);
      else
        run_bands(area, first, d, sum, blocks);
    }
  }

  /// Rows of dy from first_row on, of filter blocks from `block` on, and the rows of x's channels
  /// from `channel` on under them.
  struct band {
    int channel = 0, first_row = 0, rows, block = 0, blocks;
    std::ptrdiff_t x_prefetch;  // numbers of the next band's x fetched with a pixel
  };

  /// Inputs in blocks of V channels.
  void run_bands(pixel_area area, const X* x, const X* dy, Real* sum, int blocks) const {
    const convolution_problem& p = plan_.layer;
    const int height = plan_.out.height, at_once = plan_.blocks_at_once(blocks);
    area.x_row = std::ptrdiff_t{V} * p.stride * p.in.width;
    area.x_step = std::ptrdiff_t{V} * p.stride;
    band at{.rows = plan_.band_rows(blocks, area.samples),
            .blocks = at_once,
            .x_prefetch = p.stride * p.stride * V / (2 * calls * at_once)};
    const auto sum_band = [&] {
      for (int r = 0; r < p.window; ++r) {
        const int top = std::max(at.first_row, plan_.first_output(r));
        area.rows =
            std::min(at.first_row + at.rows, plan_.last_output(r, p.in.height, height)) - top;
        if (area.rows <= 0) continue;
        const std::ptrdiff_t row =
            std::ptrdiff_t{at.channel / V} * p.in.height + top * p.stride + r - p.padding;
        const X* const xs = x + row * p.in.width * V;
        const X* const ds =
            dy + std::ptrdiff_t{V} * top * plan_.out.width + at.block * area.dy_block;
        if (plan_.kernel == wgrad_kernel::rows3x3)
          run_rows3x3(area, at, xs, ds, sum + at.block * area.dw_block, r);
        else
          run_window_row(area, xs, ds, sum, blocks, at.channel, r);
      }
    };
    // A 1x1 window reads a band of x once: dy stays in the cache, from channel to channel.
    if (p.window == 1)
      for (; at.first_row < height; at.first_row += at.rows, area.add = true)
        for (at.channel = 0; at.channel < p.in.channels; at.channel += V) sum_band();
    else
      for (; at.channel < p.in.channels; at.channel += V)
        for (at.first_row = 0; at.first_row < height; at.first_row += at.rows)
          for (at.block = 0; at.block < blocks; at.block += at_once) sum_band();
  }

  /// Window row r, row_channels channels at a time. The calls of the first two window rows prefetch
  /// the next band's x, in equal shares; those of the third its dy.
  void run_rows3x3(pixel_area& area, const band& at, const X* x, const X* dy, Real* sum,
                   int r) const {
    const convolution_problem& p = plan_.layer;
    area.columns = plan_.out.width;
    area.dw_tap = form_.at(0, 0, 1);
    const bool overhangs = (plan_.out.width - 1) * p.stride + 1 >= p.in.width;
    const auto tile = p.stride == 1 ? wgrad_tile_rows3x3<X, V, row_channels, false>
                                    : wgrad_tile_rows3x3<X, V, row_channels, true>;
    const std::ptrdiff_t pixels = std::ptrdiff_t{at.rows} * plan_.out.width;
    wgrad_prefetch<X> fetch{
        x + at.rows * area.x_row + r * calls * at.blocks * pixels * at.x_prefetch, at.x_prefetch,
        area.x_sample, nullptr};
    if (at.channel + V >= p.in.channels) fetch.from += (area.samples - 1) * area.x_sample;
    if (r == 2) {
      const bool last = at.first_row + at.rows >= plan_.out.height;
      fetch = {dy + (last ? area.samples * area.dy_sample - at.first_row * area.dy_row
                          : at.rows * area.dy_row),
               V / calls, area.dy_sample, nullptr};
    }
    for (int k = 0; k < at.blocks; ++k, dy += area.dy_block) {
      Real* const row = sum + k * area.dw_block + form_.at(at.channel, r, 0);
      Real* const next_row =
          k + 1 < at.blocks ? row + area.dw_block : sum + form_.at(at.channel, r + 1, 0);
      if (r == 2 && k > 0) fetch.from += area.dy_block - calls * pixels * fetch.step;
      for (int first = 0; first < V; first += row_channels) {
        const int next = first + row_channels;
        fetch.sums = next < V ? row + next * V : next_row;
        tile(area, zero_pixel<X, V>, overhangs, x + first, dy, row + first * V, fetch);
        fetch.from += pixels * fetch.step;
      }
    }
  }
  /// The taps of window row r, one at a time over the pixels that each reaches.
  void run_window_row(pixel_area area, const X* x, const X* dy, Real* sum, int blocks, int channel,
                      int r) const {
    const convolution_problem& p = plan_.layer;
    const auto tile = single_tap_tile<X, V>(blocks);
    const int channels = channels_per_tile<Real, V>(blocks);
    for (int s = 0; s < p.window; ++s) {
      const int left = plan_.first_output(s);
      area.columns = plan_.last_output(s, p.in.width, plan_.out.width) - left;
      if (area.columns <= 0) continue;
      const X* const xs = x + (left * p.stride + s - p.padding) * V;
      if (p.window == 1 && p.stride == 1 && p.padding == 0)  // one long row
        area.columns *= std::exchange(area.rows, 1);
      for (int first = 0; first < V; first += channels) {
        // The same band of the next channels, then a block of the next band of dy.
        area.prefetch_dy = p.window == 1 && first == channels && channel / V < blocks;
        area.prefetch = 0;
        if (area.prefetch_dy) area.prefetch = area.columns * V + channel / V * area.dy_block;
        if (p.window == 1 && first == 0)
          area.prefetch = static_cast<std::ptrdiff_t>(p.in.pixels()) * V;
        tile(area, xs + first, dy + left * V, sum + form_.at(channel, r, s) + first * V);
      }
    }
  }
  /// Images (N, H, W, C) of few channels under the 3x3 window, one block of filters.
  void run_image3x3(pixel_area area, const X* x, const X* dy, Real* sum) const {
    constexpr int channels = image_channels<Real, V>;
    const extent& in = plan_.layer.in;
    area.rows = plan_.out.height;
    area.columns = plan_.out.width;
    area.x_step = in.channels;
    area.x_row = std::ptrdiff_t{in.width} * in.channels;
    area.dw_tap = form_.at(0, 0, 1);
    area.dw_block = form_.at(0, 1, 0);
    area.prefetch = area.dy_row;
    for (int c = 0; c < in.channels; c += channels)
      wgrad_tile_image3x3<X, V, channels>(area, zero_pixel<X, V>, x + c, dy, sum + c * V);
  }
  /// One padded image (H + padding, W + padding, C), in bands of dy that stay in the cache from tap
  /// to tap: the C channels of the S taps of a window row are adjacent.
  void run_padded_image(pixel_area area, const X* x, const X* dy, Real* sum, int blocks) const {
    const convolution_problem& p = plan_.layer;
    const int band_rows = plan_.band_rows(blocks, 1);
    area.columns = plan_.out.width;
    area.x_tap = padded_columns(p) * p.in.channels;
    area.x_row = area.x_tap * p.stride;
    area.x_step = std::ptrdiff_t{p.stride} * p.in.channels;
    area.dw_tap = form_.at(0, 1, 0);
    area.prefetch = area.dy_row;
    area.prefetch_dy = true;
    const auto sum_rows = [&]<int Taps, int Blocks>(const X* xs, const X* ds, Real* to) {
      for_tiles<tile_registers<Real, V> / (Taps * Blocks)>(
          lengths<14, 7, 3, 1>{}, p.window * p.in.channels, [&]<int Channels>(int c, int tiles) {
            for (; tiles > 0; --tiles, c += Channels)
              wgrad_tile<X, V, Taps, Blocks, Channels>(area, xs + c, ds, to + c * V);
          });
    };
    for (int first = 0; first < plan_.out.height; first += band_rows) {
      area.rows = std::min(band_rows, plan_.out.height - first);
      for (int b = 0; b < blocks;) {
        // Two blocks share what is read of a row, where sums of both fill the registers.
        const bool pair = many_registers<Real, V> && b + 1 < blocks;
        for (int r = 0; r < p.window; r += area.taps) {
          const X* const xs = x + first * area.x_row + r * area.x_tap;
          const X* const ds = dy + first * area.dy_row + b * area.dy_block;
          Real* const to = sum + b * area.dw_block + form_.at(0, r, 0);
          area.taps = pair ? 1 : std::min(3, p.window - r);
          if constexpr (many_registers<Real, V>)
            if (pair) {
              sum_rows.template operator()<1, 2>(xs, ds, to);
              continue;
            }
          sum_rows.template operator()<3, 1>(xs, ds, to);
        }
        b += pair ? 2 : 1;
      }
    }
  }

  weight_gradient_plan plan_;
  strided_pixels<V> strided_;
  packed_form<V> form_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
