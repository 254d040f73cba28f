// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// fprop and dgrad of engine `direct`: runs a correlation_plan over samples.
//
//   y[k, i, j] = sum over input channels c and taps (r, s) of  w[k, c, r, s] x[c, row, column]
//
// with row and column as in ops/convolution.hpp, forwards or backward. The 3x3 window of padding 1
// reads its input in place (tiles/rows3x3.hpp); where another window reaches beyond the image,
// bands of rows are copied with zero columns around them, so that no tile handles edges. Taps
// whose row lies outside the image are left out. The pixels that a 1x1 window reads behind a stride
// are copied together, and the layer runs without its stride.
//
// The kernels read and write wide<N>. Samples of a 16-bit N are widened, a task's at a time, and
// their sums are rounded once: a pixel is converted once and multiplied with every filter.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/direct/tiles/correlation_plan.hpp>
#include <cordee/ops/engines/direct/tiles/packed_form.hpp>
#include <cordee/ops/engines/direct/tiles/rows3x3.hpp>
#include <cordee/ops/engines/direct/tiles/scratch.hpp>
#include <cordee/ops/engines/direct/tiles/tile.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

template <class N, int V>
class correlation {
  using Real = precision::wide<N>;

 public:
  correlation(const convolution_problem& p, bool backward)
      : plan_(plan_correlation<Real, V>(p, backward)),
        strided_(p),
        form_{plan_.out.channels, plan_.in.channels, p.window},
        tap_rows_(tap_rows_of(strided_.dense_layer(p), backward)) {}

  [[nodiscard]] const correlation_plan& plan() const { return plan_; }
  [[nodiscard]] const packed_form<V>& form() const { return form_; }

  void run(int samples,
           const N* x,     // (N, C/B, H, W, B)
           const Real* w,  // (K/V, C/B, R, S, B, V), form()
           N* y,           // (N, K/B, H', W', B)
           write_mode mode, cpu::stream s) const {
    const auto n = static_cast<std::size_t>(samples);
    const std::size_t groups = plan_.sample_groups(samples), pairs = plan_.filter_pair_count(),
                      parts = plan_.filter_parts(groups, device::workers_of(s));
    device::parallel_dynamic(s, groups * parts, [&](std::size_t task) {
      const std::size_t group = task / parts, part = task % parts, first = n * group / groups;
      run_group(n * (group + 1) / groups - first, x + first * plan_.x_size, w,
                y + first * plan_.y_size, mode == write_mode::add,
                {2 * (pairs * part / parts), 2 * (pairs * (part + 1) / parts)});
    });
  }

 private:
  /// Filter blocks first .. last-1; the last may lie beyond y's channels.
  struct filter_range {
    std::size_t first, last;
  };
  struct thread_memory {
    scratch<Real> padded;    // (C/B, rows, padded_columns, B)
    scratch<Real> widened;   // (K/V, H', W', V), of a y of few channels
    scratch<Real> gathered;  // (N, C/V, H', W', V), the pixels behind a stride
    std::vector<tap> taps;
  };
  struct widened_memory {
    scratch<Real> x;  // (samples of a task, C/B, H, W, B)
    scratch<Real> y;  // (samples of a task, K/B, H', W', B)
  };
  /// The input rows of a band, from `first_row` on.
  struct input_band {
    const Real* x;
    int first_row;
    std::ptrdiff_t block_pitch, row_pitch;
    std::size_t samples = 1;
  };

  /// The samples of one task: x (samples, C/B, H, W, B), w form(), y (samples, K/B, H', W', B).
  void run_group(std::size_t samples, const N* x, const Real* w, N* y, bool add,
                 const filter_range& filters) const {
    if constexpr (precision::StorageOnly<N>) {
      thread_local widened_memory memory;
      const std::size_t size = plan_.y_size, plane = plan_.out.pixels() * V,
                        blocks = std::min(filters.last, static_cast<std::size_t>(plan_.out_blocks));
      const bool whole = plan_.gathers() || channel_block_size<V>(plan_.out.channels) != V;
      const std::size_t first = whole ? 0 : filters.first * plane,
                        last = whole ? size : blocks * plane;
      Real* const sums = memory.y.reserve(samples * size);  // (samples, K/B, H', W', B)
      run_samples(samples, widen_samples(x, samples, plan_.x_size, 0, plan_.x_size, memory.x), w,
                  sums, false, filters);
      for (std::size_t n = 0; n < samples; ++n)
        simd_for_each<Real>(n * size + first, n * size + last,
                            [=](auto at) { at.put(y, add ? at(y) + at(sums) : at(sums)); });
    } else {
      run_samples(samples, x, w, y, add, filters);
    }
  }

  /// The samples of one task in Real, with what is copied before and after the bands.
  void run_samples(std::size_t samples, const Real* x, const Real* w, Real* y, bool add,
                   const filter_range& filters) const {
    thread_local thread_memory memory;
    if (plan_.gathers() && !plan_.backward) {
      const std::size_t size = sample_size(plan_.in, V);
      Real* const dense = memory.gathered.reserve(samples * size);  // (N, C/V, H', W', V)
      for (std::size_t n = 0; n < samples; ++n)
        strided_.gather(x + n * plan_.x_size, dense + n * size);
      x = dense;
    }
    const std::size_t size = sample_size(plan_.out, V);
    if (plan_.gathers() && plan_.backward) {
      Real* const dense = memory.gathered.reserve(samples * size);  // (N, C/V, H', W', V)
      run_bands(memory, samples, x, w, dense, false, filters);
      for (std::size_t n = 0; n < samples; ++n)
        strided_.scatter(dense + n * size, y + n * plan_.y_size, add);
      return;
    }
    const int channels = plan_.out.channels;
    if (channel_block_size<V>(channels) == V)
      return run_bands(memory, samples, x, w, y, add, filters);
    Real* const wide = memory.widened.reserve(size);  // (1, H', W', V)
    run_bands(memory, samples, x, w, wide, false, filters);
    for (std::size_t pixel = 0; pixel < plan_.out.pixels(); ++pixel)
      for (int k = 0; k < channels; ++k, ++y)
        *y = (add ? *y : Real{}) +
             wide[(static_cast<std::size_t>(k / V) * plan_.out.pixels() + pixel) * V +
                  static_cast<std::size_t>(k % V)];
  }

  /// Bands of rows whose input stays in the cache from filter to filter.
  void run_bands(thread_memory& memory, std::size_t samples, const Real* x, const Real* w, Real* y,
                 bool add, const filter_range& filters) const {
    const std::ptrdiff_t row = plan_.row_size;
    for (int i = 0; i < plan_.rows; i += plan_.band_rows) {
      const row_range rows{i * plan_.out_step,
                           std::min(plan_.out.height, (i + plan_.band_rows) * plan_.out_step)};
      if (plan_.in_place) {
        run_rows(memory.taps, {x, 0, row * plan_.in.height, row, samples}, w, y, add, rows,
                 filters);
        continue;
      }
      const auto [low, high] = plan_.input_rows(rows);
      Real* const padded = memory.padded.reserve(  // (C/B, high - low, padded_columns, B)
          static_cast<std::size_t>(row) * static_cast<std::size_t>(plan_.in_blocks * (high - low)));
      pad_rows(x, plan_.in, plan_.block, low, high, plan_.left_columns, plan_.padded_columns,
               padded);
      run_rows(memory.taps, {padded, low, row * (high - low), row}, w, y, add, rows, filters);
    }
  }

  /// Output rows of which the first is a multiple of out_step. Weights stay in the cache from row
  /// to row, the input of several samples from filter to filter.
  void run_rows(std::vector<tap>& taps, const input_band& band, const Real* w, Real* y, bool add,
                const row_range& rows, const filter_range& filters) const {
    const int step = plan_.out_step, blocks = plan_.in_blocks, depth = plan_.depth;
    const int part_size =
        plan_.blocks_per_part(static_cast<int>(band.samples), rows.last - rows.first);
    const auto last_filter =
        static_cast<int>(std::min(filters.last, static_cast<std::size_t>(plan_.out_blocks)));
    const auto y_block = static_cast<std::ptrdiff_t>(plan_.out.pixels()) * V;
    const int filter_step = plan_.filter_pairs ? 2 : 1;
    for (int part = 0; part < blocks; part += part_size)
      for (auto k = static_cast<int>(filters.first); k < last_filter; k += filter_step)
        for (int c = part; c < std::min(blocks, part + part_size); c += depth)
          for (int a = 0; a < std::min(step, rows.last - rows.first); ++a)
            for (int b = 0; b < (plan_.rows3x3 ? 1 : std::min(step, plan_.out.width)); ++b) {
              const bool pair = filter_step == 2 && k + 1 < last_filter;
              row_tile<Real> at{.pixels = (plan_.out.width - b + step - 1) / step,
                                .columns = plan_.in.width,
                                .x = band.x,
                                .x_step = std::ptrdiff_t{plan_.block} * plan_.in_step,
                                .x_row = band.row_pitch * plan_.in_step,
                                .w = w + k * form_.block_size(),
                                .w_block = pair ? form_.block_size() : 0,
                                .w_span = form_.at(0, 0, 1) * (plan_.backward ? -1 : 1),
                                .y = y + k * y_block + std::ptrdiff_t{V} * b,
                                .y_block = pair ? y_block : 0,
                                .y_step = std::ptrdiff_t{V} * step,
                                .y_row = std::ptrdiff_t{V} * plan_.out.width * step,
                                .add = add || c > 0,
                                .edge = zero_pixel<Real, V>};
              if (plan_.rows3x3) at.pixels = plan_.out.width;
              run_remainder(taps, band, at, c, a, b, rows, kernel(pair));
            }
  }

  using rows_kernel = void (*)(row_tile<Real>, const tap*, const tap*);
  [[nodiscard]] rows_kernel kernel(bool pair) const {
    constexpr int single = min_tile_blocks<Real, V>;
    if (!plan_.rows3x3) return pair ? correlate_rows<Real, V, 2> : correlate_rows<Real, V, single>;
    if (plan_.block != V) return rows3x3_run<Real, V, image_pitch, 1, 1, 1>;
    if (plan_.in_step == 2)
      return rows3x3_run<Real, V, V, 2, 2, 1>;  // a single block is computed twice: there are few
    if constexpr (many_registers<Real, V>)
      if (plan_.out_step == 2 && pair) return rows3x3_run<Real, V, V, 2, 1, 2>;
    if (plan_.out_step == 2) return rows3x3_run<Real, V, V, 1, 1, 2>;
    return pair ? rows3x3_run<Real, V, V, 2, 1, 1> : rows3x3_run<Real, V, V, single, 1, 1>;
  }

  /// Rows of remainder a and columns of remainder b, from input block c on: rows that have the same
  /// taps inside the image go to the kernel together.
  void run_remainder(std::vector<tap>& taps, const input_band& band, row_tile<Real> at, int c,
                     int a, int b, const row_range& rows, rows_kernel multiply_rows) const {
    const Real* const x = at.x;
    Real* const y = at.y;
    const int step = plan_.out_step;
    for (int h = rows.first + a, next = h; h < rows.last; h = next) {
      const std::span<const tap_offset> inside = taps_inside(h, a);
      const auto same = [&](std::span<const tap_offset> other) {
        return other.data() == inside.data() && other.size() == inside.size();
      };
      do next += step;
      while (next < rows.last && same(taps_inside(next, a)));
      list_taps(taps, band, inside, tap_rows_[static_cast<std::size_t>(b)], c);
      at.rows = (next - h) / step;
      at.x = x + (h / step * plan_.in_step - band.first_row) * band.row_pitch;
      at.y = y + std::ptrdiff_t{h} * plan_.out.width * V;
      for (std::size_t n = 0; n < band.samples; ++n) {
        multiply_rows(at, taps.data(), taps.data() + taps.size());
        at.x += sample_size(plan_.in, plan_.block);
        at.y += sample_size(plan_.out, V);
      }
    }
  }
  /// The rows of the window that lie inside the image for output row h, of remainder a.
  [[nodiscard]] std::span<const tap_offset> taps_inside(int h, int a) const {
    const tap_row& window_rows = tap_rows_[static_cast<std::size_t>(a)];
    std::span<const tap_offset> rows{window_rows.data(), window_rows.size()};
    const auto outside = [row = h / plan_.out_step * plan_.in_step, this](const tap_offset& r) {
      return row + r.offset < 0 || row + r.offset >= plan_.in.height;
    };
    while (!rows.empty() && outside(rows.front())) rows = rows.subspan(1);
    while (!rows.empty() && outside(rows.back())) rows = rows.first(rows.size() - 1);
    return rows;
  }
  /// The taps of these rows and columns of the window over `depth` input blocks from c on, relative
  /// to input row 0.
  void list_taps(std::vector<tap>& taps, const input_band& band, std::span<const tap_offset> rows,
                 const tap_row& columns, int c) const {
    taps.clear();
    const int block_size = plan_.block;
    for (int block = c; block < std::min(plan_.in_blocks, c + plan_.depth); ++block)
      for (const tap_offset& r : rows) {
        const std::ptrdiff_t x = block * band.block_pitch + r.offset * band.row_pitch;
        const int channels = std::min(block_size, plan_.in.channels - block * block_size);
        if (plan_.rows3x3) {
          taps.push_back({x, form_.at(block * V, r.tap, plan_.backward ? 2 : 0), channels});
        } else if (block_size != V &&
                   !plan_.backward) {  // the channels of a window row are adjacent
          taps.push_back({x, form_.at(0, r.tap, 0), plan_.window * channels});
        } else {
          for (const tap_offset& s : columns)
            taps.push_back({x + std::ptrdiff_t{block_size} * (s.offset + plan_.left_columns),
                            form_.at(block * V, r.tap, s.tap), channels});
        }
      }
  }

  correlation_plan plan_;
  strided_pixels<V> strided_;
  packed_form<V> form_;
  std::vector<tap_row> tap_rows_;  // one for each remainder of an output row
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
