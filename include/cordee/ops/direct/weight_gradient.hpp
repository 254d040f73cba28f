// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// dw[k, c, r, s] = sum over samples and pixels of dy[k, i, j] x[c, i t + r - p, j t + s - p].
//
// Every tap sums over the pixels that exist for it, so nothing is padded, in bands of rows that
// stay in the first-level cache from tap to tap; of small images a pass takes several samples. A
// narrow input (the network's image) is copied into padded rows, where all channels of three window
// rows are one tile, and what a lone tap meets behind a stride is moved together. Samples fall into
// a fixed number of groups whose sums are added in order: the result does not depend on the
// workers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/direct/gather.hpp>
#include <cordee/ops/direct/packed_form.hpp>
#include <cordee/ops/direct/slide.hpp>
#include <cordee/ops/direct/storage.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

template <class Real, int V>
class weight_gradient {
 public:
  explicit weight_gradient(const convolution_problem& p)
      : met_(p), p_(met_.layer(p)), out_(p.out()), form_{p.filters, p.in.channels, p.window} {}

  /// So that there are eight tasks or more, whatever the workers; each of several groups costs a
  /// set of sums.
  [[nodiscard]] int groups(int samples) const {
    return std::clamp(samples, 1, std::max(1, 8 / sets()));
  }
  [[nodiscard]] std::size_t workspace(int samples) const {
    const int parts = groups(samples);
    return met_size(samples) + (parts > 1 ? static_cast<std::size_t>(parts) * form_.size() : 0);
  }

  void run(int samples, const Real* x, const Real* dy, Real* dw, into how, Real* workspace,
           cpu::stream s) const {
    const auto parts = static_cast<std::size_t>(groups(samples)), all = blocks_of(p_.filters, V),
               sets = static_cast<std::size_t>(this->sets()),
               block = static_cast<std::size_t>(form_.block_size());
    Real* const sums = workspace + met_size(samples);
    if (met_.stride > 1) {
      each_task(s, static_cast<std::size_t>(samples), [&](std::size_t n) {
        met_.gather(x + n * sample_size(met_.in, V), workspace + n * sample_size(p_.in, V));
      });
      x = workspace;
    }
    each_task(s, parts * sets, [&](std::size_t task) {
      thread_local scratch<Real> lone;
      const std::size_t part = task / sets, set = task % sets;
      const auto begin = static_cast<std::size_t>(samples) * part / parts;
      const auto end = static_cast<std::size_t>(samples) * (part + 1) / parts;
      const std::size_t k = all * set / sets, past = all * (set + 1) / sets;
      // What no other group adds to goes where it belongs while it is near.
      Real* const sum =
          parts > 1 ? sums + part * form_.size() + k * block : lone.reserve((past - k) * block);
      group(static_cast<int>(begin), static_cast<int>(end), static_cast<int>(k),
            static_cast<int>(past - k), x, dy, sum);
      if (parts == 1) form_.unpack(k, past, sum, dw, how);
    });
    if (parts == 1) return;
    parallel(s, all, 1, [&](std::size_t first, std::size_t last) {
      for (std::size_t part = 1; part < parts; ++part)  // in order
        for (std::size_t i = first * block; i < last * block; i += V)
          store<Real, V>(sums + i,
                         load<Real, V>(sums + i) + load<Real, V>(sums + part * form_.size() + i));
      form_.unpack(first, last, sums + first * block, dw, how);
    });
  }

 private:
  /// Numbers of x and dy that a band holds: what fits the first-level cache. The slide of stride 1
  /// asks for so little that the second serves it, and sums the longer.
  [[nodiscard]] int numbers_near() const {
    return (slides() && p_.stride == 1 ? 131072 : 32768) / static_cast<int>(sizeof(Real));
  }
  /// Of filter blocks that are summed at once, as equal as can be.
  [[nodiscard]] int sets() const {
    const int most = slides() || p_.in.channels <= 4 ? 2 : filter_blocks<Real, V>;
    return (static_cast<int>(blocks_of(p_.filters, V)) + most - 1) / most;
  }

  struct memory {
    scratch<Real> rows, wide;
  };

  /// What a lone tap meets, at the workspace's front.
  [[nodiscard]] std::size_t met_size(int samples) const {
    return met_.stride > 1 ? static_cast<std::size_t>(samples) * sample_size(p_.in, V) : 0;
  }

  /// The sums of samples begin .. end-1 for filter blocks k .. k+blocks-1.
  void group(int begin, int end, int k, int blocks, const Real* x, const Real* dy,
             Real* sum) const {
    thread_local memory mine;
    std::fill(sum, sum + blocks * form_.block_size(), Real{});

    const bool narrow_x = p_.in.channels <= 4, narrow_dy = direct_block<V>(p_.filters) != V;
    const auto images =
        static_cast<std::ptrdiff_t>(sample_size(p_.in, direct_block<V>(p_.in.channels)));
    const auto errors = static_cast<std::ptrdiff_t>(sample_size(out_, direct_block<V>(p_.filters)));
    const auto plane = static_cast<std::ptrdiff_t>(out_.pixels()) * V;
    const auto pixels = static_cast<int>(
        p_.in.pixels() + static_cast<std::size_t>(slides() ? 1 : blocks) * out_.pixels());
    const bool image =
        narrow_x && slides() && p_.stride == 1 && p_.in.channels % image_channels<Real, V> == 0;
    const int at_once = narrow_dy || (narrow_x && !image) ? 1
                        : image                           ? end - begin
                                : std::max(1, numbers_near() / (V * pixels));
    for (int n = begin; n < end; n += at_once) {
      const Real* d = dy + n * errors;
      if (narrow_dy) d = widen<V>(d, p_.filters, out_.pixels(), mine.wide);
      d += k * plane;
      const Real* const from = x + n * images;
      pixel_area area{.samples = std::min(at_once, end - n),
                      .x_sample = images,
                      .dy_sample = errors,
                      .dy_row = std::ptrdiff_t{V} * out_.width,
                      .dy_block = plane,
                      .dw_block = form_.block_size()};
      if (image)
        for (int b = 0; b < blocks; ++b)
          colours(area, from, d + b * plane, sum + b * form_.block_size());
      else if (narrow_x)
        narrow(area, pad_image(p_, from, mine.rows), d, sum, blocks);
      else
        every_tap(area, from, d, sum, blocks);
    }
  }

  /// Rows of dy from `first` on, of the blocks from b on, and the rows of x's block c under them.
  struct band {
    int c = 0, first = 0, rows, b = 0, blocks;
    std::ptrdiff_t x_step;  // of what is fetched, with a pixel
  };

  /// Blocks of V channels in.
  void every_tap(pixel_area area, const Real* x, const Real* dy, Real* sum, int blocks) const {
    area.x_row = std::ptrdiff_t{V} * p_.stride * p_.in.width;
    area.x_step = std::ptrdiff_t{V} * p_.stride;
    // One block of filters after the other leaves room for longer sums; behind a stride x is
    // larger.
    const int blocks_at_once = slides() && p_.stride == 1 ? 1 : blocks;
    const int row_size = V * (p_.in.width * p_.stride + blocks_at_once * out_.width) * area.samples;
    const int most = std::max(1, numbers_near() / row_size);
    const int bands = (out_.height + most - 1) / most;  // as equal as can be
    band at{.rows = (out_.height + bands - 1) / bands,
            .blocks = blocks_at_once,
            .x_step = p_.stride * p_.stride * V / (2 * calls * blocks_at_once)};
    const auto sum_band = [&] {
      for (int r = 0; r < p_.window; ++r) {
        const int top = std::max(at.first, first_met(r));
        area.rows = std::min(at.first + at.rows, last_met(r, p_.in.height, out_.height)) - top;
        if (area.rows <= 0) continue;
        const std::ptrdiff_t row =
            std::ptrdiff_t{at.c / V} * p_.in.height + top * p_.stride + r - p_.padding;
        const Real* const xs = x + row * p_.in.width * V;
        const Real* const ds = dy + std::ptrdiff_t{V} * top * out_.width + at.b * area.dy_block;
        if (slides())
          slide(area, at, xs, ds, sum + at.b * area.dw_block, r);
        else
          every_column(area, xs, ds, sum, blocks, at.c, r);
      }
    };
    // A lone tap meets a band of x once: it is dy that stays near, from channel to channel.
    if (p_.window == 1)
      for (; at.first < out_.height; at.first += at.rows)
        for (at.c = 0; at.c < p_.in.channels; at.c += V) sum_band();
    else
      for (; at.c < p_.in.channels; at.c += V)
        for (at.first = 0; at.first < out_.height; at.first += at.rows)
          for (at.b = 0; at.b < blocks; at.b += blocks_at_once) sum_band();
  }
  [[nodiscard]] bool slides() const { return p_.window == 3 && p_.padding == 1 && p_.stride <= 2; }

  static constexpr int channels_of_slide = channels_at_once<Real, V>(3),
                       calls = V / channels_of_slide;
  /// Window row r, some channels at a time. The calls of the first two rows bring what follows the
  /// band's x near, evenly, those of the third what follows its dy.
  void slide(pixel_area& area, const band& at, const Real* x, const Real* dy, Real* sum,
             int r) const {
    area.columns = out_.width;
    area.dw_tap = form_.at(0, 0, 1);
    const bool overhangs = (out_.width - 1) * p_.stride + 1 >= p_.in.width;
    const auto tile = p_.stride == 1 ? gather_slide<Real, V, channels_of_slide, false>
                                     : gather_slide<Real, V, channels_of_slide, true>;
    const std::ptrdiff_t pixels = std::ptrdiff_t{at.rows} * out_.width;
    fetched<Real> fetch{x + at.rows * area.x_row + r * calls * at.blocks * pixels * at.x_step,
                        at.x_step, area.x_sample, nullptr};
    if (at.c + V >= p_.in.channels) fetch.at += (area.samples - 1) * area.x_sample;
    if (r == 2) {
      const bool last = at.first + at.rows >= out_.height;
      fetch = {dy + (last ? area.samples * area.dy_sample - at.first * area.dy_row
                          : at.rows * area.dy_row),
               V / calls, area.dy_sample, nullptr};
    }
    for (int k = 0; k < at.blocks; ++k, dy += area.dy_block) {
      Real* const row = sum + k * area.dw_block + form_.at(at.c, r, 0);
      Real* const next = k + 1 < at.blocks ? row + area.dw_block : sum + form_.at(at.c, r + 1, 0);
      if (r == 2 && k > 0) fetch.at += area.dy_block - calls * pixels * fetch.step;
      for (int first = 0; first < V; first += channels_of_slide) {
        const int then = first + channels_of_slide;
        fetch.sums = then < V ? row + then * V : next;
        tile(area, zero_pixel<Real, V>, overhangs, x + first, dy, row + first * V, fetch);
        fetch.at += pixels * fetch.step;
      }
    }
  }
  /// One tap at a time over the pixels that meet it.
  void every_column(pixel_area area, const Real* x, const Real* dy, Real* sum, int blocks, int c,
                    int r) const {
    const auto tile = gather_of<Real, V>(blocks);
    const int channels = channels_at_once<Real, V>(blocks);
    for (int s = 0; s < p_.window; ++s) {
      const int left = first_met(s);
      area.columns = last_met(s, p_.in.width, out_.width) - left;
      if (area.columns <= 0) continue;
      const Real* const from = x + (left * p_.stride + s - p_.padding) * V;
      if (p_.window == 1 && p_.stride == 1 && p_.padding == 0)  // one long row
        area.columns *= std::exchange(area.rows, 1);
      for (int first = 0; first < V; first += channels) {
        area.ahead = p_.window == 1 && first == 0  // the same band of the next channels
                         ? static_cast<std::ptrdiff_t>(p_.in.pixels()) * V
                         : 0;
        tile(area, from + first, dy + left * V, sum + form_.at(c, r, s) + first * V);
      }
    }
  }
  /// The outputs that meet tap r inside the image: from the first, before the last.
  [[nodiscard]] int first_met(int r) const {
    return std::max(0, (p_.padding - r + p_.stride - 1) / p_.stride);
  }
  [[nodiscard]] int last_met(int r, int in, int out) const {
    const int past = in + p_.padding - r;  // outputs i with i t < past
    return past <= 0 ? 0 : std::min(out, (past + p_.stride - 1) / p_.stride);
  }

  /// Images of few channels under the 3x3 window.
  void colours(pixel_area area, const Real* x, const Real* dy, Real* sum) const {
    constexpr int channels = image_channels<Real, V>;
    area.rows = out_.height;
    area.columns = out_.width;
    area.x_step = p_.in.channels;
    area.x_row = std::ptrdiff_t{p_.in.width} * p_.in.channels;
    area.dw_tap = form_.at(0, 0, 1);
    area.dw_block = form_.at(0, 1, 0);
    area.ahead = area.dy_row;
    for (int c = 0; c < p_.in.channels; c += channels)
      gather_image<Real, V, channels>(area, zero_pixel<Real, V>, x + c, dy, sum + c * V);
  }
  /// One image of few channels: the C channels of the S taps of a window row follow one another. In
  /// bands of dy that every tap finds near.
  void narrow(pixel_area area, const Real* rows, const Real* dy, Real* sum, int blocks) const {
    const int most = std::max(1, numbers_near() / (2 * V * out_.width));
    area.columns = out_.width;
    area.x_tap = padded_columns(p_) * p_.in.channels;
    area.x_row = area.x_tap * p_.stride;
    area.x_step = std::ptrdiff_t{p_.stride} * p_.in.channels;
    area.dw_tap = form_.at(0, 1, 0);
    area.ahead = area.dy_row;
    const auto line = [&](const Real* x, const Real* d, Real* to) {
      cover<tile_registers<Real, V> / 3>(
          lengths<7, 3, 1>{}, p_.window * p_.in.channels, [&]<int Channels>(int c, int tiles) {
            for (; tiles > 0; --tiles, c += Channels)
              gather<Real, V, 3, 1, Channels>(area, x + c, d, to + c * V);
          });
    };
    for (int first = 0; first < out_.height; first += most) {
      area.rows = std::min(most, out_.height - first);
      for (int b = 0; b < blocks; ++b)
        for (int r = 0; r < p_.window; r += 3) {
          area.taps = std::min(3, p_.window - r);
          line(rows + first * area.x_row + r * area.x_tap,
               dy + first * area.dy_row + b * area.dy_block,
               sum + b * area.dw_block + form_.at(0, r, 0));
        }
    }
  }

  met_pixels<V> met_;
  convolution_problem p_;
  extent out_;
  packed_form<V> form_;
};

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
