// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// dw[k, c, r, s] = sum over samples and pixels of dy[k, i, j] x[c, i t + r - p, j t + s - p].
//
// Every tap sums over the pixels that exist for it, so nothing is padded; the samples of one pass
// are as many as the first-level cache holds. A narrow input (the image) is copied into padded
// rows, where all channels of three window rows are one tile. Samples fall into a fixed number of
// groups whose sums are added in order: the result does not depend on the workers.
#pragma once

#include <algorithm>
#include <cstddef>

#include <cordee/ops/direct/correlation.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

template <class Real, int V>
class weight_gradient {
 public:
  explicit weight_gradient(const convolution_problem& p)
      : p_(p), out_(p.out()), form_{p.filters, p.in.channels, p.window} {}

  [[nodiscard]] static constexpr int groups(int samples) { return std::min(samples, 8); }
  [[nodiscard]] std::size_t workspace(int samples) const {
    return static_cast<std::size_t>(groups(samples)) * form_.size();
  }

  void run(int samples, const Real* x, const Real* dy, Real* dw, into how, Real* sums,
           cpu::stream s) const {
    const std::size_t pairs = (blocks_of(p_.filters, V) + 1) / 2;
    const auto parts = static_cast<std::size_t>(groups(samples));
    parallel(s, parts * pairs, 1, [&](std::size_t first, std::size_t last) {
      for (std::size_t task = first; task < last; ++task) {
        const std::size_t part = task / pairs;
        const auto begin = static_cast<std::size_t>(samples) * part / parts;
        const auto end = static_cast<std::size_t>(samples) * (part + 1) / parts;
        group(static_cast<int>(begin), static_cast<int>(end), static_cast<int>(task % pairs) * 2, x,
              dy, sums + part * form_.size());
      }
    });
    add_up(parts, sums, dw, how, s);
  }

 private:
  static constexpr int numbers_near = 24576 / static_cast<int>(sizeof(Real));

  struct memory {
    scratch<Real> rows, wide;
  };

  /// The sums of samples begin .. end-1 for filter blocks k and k + 1.
  void group(int begin, int end, int k, const Real* x, const Real* dy, Real* sum) const {
    thread_local memory mine;
    const int blocks = std::min(2, static_cast<int>(blocks_of(p_.filters, V)) - k);
    sum += k * form_.block_size();
    std::fill(sum, sum + blocks * form_.block_size(), Real{});

    const bool narrow_x = p_.in.channels <= 4, narrow_dy = direct_block<V>(p_.filters) != V;
    const auto image =
        static_cast<std::ptrdiff_t>(sample_size(p_.in, direct_block<V>(p_.in.channels)));
    const auto errors = static_cast<std::ptrdiff_t>(sample_size(out_, direct_block<V>(p_.filters)));
    const auto plane = static_cast<std::ptrdiff_t>(out_.pixels()) * V;
    const auto pixels =
        static_cast<int>(p_.in.pixels() + static_cast<std::size_t>(blocks) * out_.pixels());
    const int at_once = narrow_x || narrow_dy ? 1 : std::max(1, numbers_near / (V * pixels));
    for (int n = begin; n < end; n += at_once) {
      const Real* const d = narrow_dy ? widen(dy + n * errors, mine.wide) : dy + n * errors;
      const Real* const from = x + n * image;
      pixel_area area{.samples = std::min(at_once, end - n),
                      .x_sample = image,
                      .dy_sample = errors,
                      .dy_row = std::ptrdiff_t{V} * out_.width,
                      .dy_block = plane,
                      .dw_block = form_.block_size()};
      const bool more = n + at_once < end && !narrow_x && !narrow_dy;
      if (narrow_x)
        for (int b = 0; b < blocks; ++b)
          narrow(area, pad(from, mine.rows), d + (k + b) * plane, sum + b * form_.block_size());
      else if (blocks == 2)
        every_tap<2>(area, from, d + k * plane, sum, more);
      else
        every_tap<1>(area, from, d + k * plane, sum, more);
    }
  }

  /// Blocks of V channels in, one tap at a time over the pixels that meet it, in bands of rows that
  /// stay in the first-level cache from tap to tap.
  template <int Blocks>
  void every_tap(pixel_area area, const Real* x, const Real* dy, Real* sum, bool more) const {
    area.x_row = std::ptrdiff_t{V} * p_.stride * p_.in.width;
    area.x_step = std::ptrdiff_t{V} * p_.stride;
    const int row_size = V * (p_.in.width * p_.stride + Blocks * out_.width);
    // Two blocks read three lines for 16 products and want them near; one block does well without.
    const bool reused = p_.window > 1 && Blocks == 2;
    const int band = reused ? std::max(1, numbers_near / row_size / area.samples) : out_.height;
    const auto calls = static_cast<std::ptrdiff_t>(blocks_of(p_.in.channels, V)) * p_.window *
                       ((out_.height + band - 1) / band);
    fetcher next_x(x + (more ? area.samples * area.x_sample : 0),
                   static_cast<std::size_t>(more ? area.x_sample : 0), calls);
    fetcher next_dy(dy + (more ? area.samples * area.dy_sample : 0),
                    static_cast<std::size_t>(more ? Blocks * area.dy_block : 0), calls);
    for (int c = 0; c < p_.in.channels; c += V)
      for (int first = 0; first < out_.height; first += band)
        for (int r = 0; r < p_.window; ++r) {
          const int top = std::max(first, first_met(r));
          area.rows = std::min(first + band, last_met(r, p_.in.height, out_.height)) - top;
          next_x.some();
          next_dy.some();
          if (area.rows <= 0) continue;
          const std::ptrdiff_t row =
              std::ptrdiff_t{c / V} * p_.in.height + top * p_.stride + r - p_.padding;
          every_column<Blocks>(area, x + row * p_.in.width * V,
                               dy + std::ptrdiff_t{V} * top * out_.width, sum, c, r);
        }
  }
  template <int Blocks>
  void every_column(pixel_area area, const Real* x, const Real* dy, Real* sum, int c, int r) const {
    const int channels = std::min(V, p_.in.channels - c);
    if (Blocks == 1 && p_.window == 3 && p_.stride == 1 && p_.padding == 1 && p_.in.width >= 2) {
      // One block: a pixel of x serves all three taps of a row, dy one to the right for s = 0 ...
      const int width = p_.in.width;
      area.dy_block = -V;
      area.dw_block = form_.at(0, 0, 1);
      area.columns = width - 2;
      gather_channels<Real, V, 1, 3>(area, x + V, dy + 2 * V, sum + form_.at(c, r, 0), channels);
      // ... but for the first and the last, which meet two.
      area.columns = 1;
      gather_channels<Real, V, 1, 2>(area, x, dy + V, sum + form_.at(c, r, 0), channels);
      gather_channels<Real, V, 1, 2>(area, x + (width - 1) * V, dy + (width - 1) * V,
                                     sum + form_.at(c, r, 1), channels);
      return;
    }
    for (int s = 0; s < p_.window; ++s) {
      const int left = first_met(s);
      area.columns = last_met(s, p_.in.width, out_.width) - left;
      if (area.columns <= 0) continue;
      gather_channels<Real, V, 1, Blocks>(area, x + (left * p_.stride + s - p_.padding) * V,
                                          dy + left * V, sum + form_.at(c, r, s), channels);
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

  /// One image of few channels: the C channels of the S taps of a window row follow one another.
  void narrow(pixel_area area, const Real* rows, const Real* dy, Real* sum) const {
    area.rows = out_.height;
    area.columns = out_.width;
    area.x_tap = padded_columns() * p_.in.channels;
    area.x_row = area.x_tap * p_.stride;
    area.x_step = std::ptrdiff_t{p_.stride} * p_.in.channels;
    area.dw_tap = form_.at(0, 1, 0);
    for (int r = 0; r < p_.window; r += 3) {
      area.taps = std::min(3, p_.window - r);
      gather_channels<Real, V, 3, 1>(area, rows + r * area.x_tap, dy, sum + form_.at(0, r, 0),
                                     p_.window * p_.in.channels);
    }
  }
  [[nodiscard]] std::ptrdiff_t padded_columns() const {
    return std::ptrdiff_t{out_.width - 1} * p_.stride + p_.window;
  }
  /// (rows, columns, C) with the padding, and two rows more for taps that are not wanted.
  const Real* pad(const Real* x, scratch<Real>& to) const {
    const std::ptrdiff_t rows = std::ptrdiff_t{out_.height - 1} * p_.stride + p_.window + 2;
    const std::ptrdiff_t size = padded_columns() * p_.in.channels,
                         row = std::ptrdiff_t{p_.in.width} * p_.in.channels;
    Real* const out = to.reserve(static_cast<std::size_t>(rows * size));
    const std::ptrdiff_t left = std::min(size, std::ptrdiff_t{p_.padding} * p_.in.channels);
    const std::ptrdiff_t middle = std::min(size - left, row);
    for (std::ptrdiff_t i = 0; i < rows; ++i) {
      const std::ptrdiff_t h = i - p_.padding;
      Real* const line = out + i * size;
      if (h < 0 || h >= p_.in.height) {
        std::fill(line, line + size, Real{});
        continue;
      }
      std::fill(line, line + left, Real{});
      std::copy(x + h * row, x + h * row + middle, line + left);
      std::fill(line + left + middle, line + size, Real{});
    }
    return out;
  }
  /// Few filters, in blocks of V.
  const Real* widen(const Real* dy, scratch<Real>& to) const {
    const std::size_t blocks = blocks_of(p_.filters, V), pixels = out_.pixels();
    Real* const out = to.reserve(blocks * pixels * V);
    for (std::size_t b = 0; b < blocks; ++b)
      for (std::size_t i = 0; i < pixels; ++i)
        for (std::size_t v = 0; v < V; ++v)
          out[(b * pixels + i) * V + v] =
              b * V + v < static_cast<std::size_t>(p_.filters)
                  ? dy[i * static_cast<std::size_t>(p_.filters) + b * V + v]
                  : Real{};
    return out;
  }

  /// The groups' sums in order, into canonical order.
  void add_up(std::size_t parts, const Real* sums, Real* dw, into how, cpu::stream s) const {
    form_.each_row(s, [&](int k, int c, int r, int q, std::ptrdiff_t at) {
      vec<Real, V> sum{};
      for (std::size_t part = 0; part < parts; ++part)
        sum += load<Real, V>(sums + part * form_.size() + at);
      const std::ptrdiff_t area = std::ptrdiff_t{p_.window} * p_.window;
      Real* to = dw + (std::ptrdiff_t{k} * p_.in.channels + c) * area + r * p_.window + q;
      for (int v = 0; v < std::min(V, p_.filters - k); ++v, to += p_.in.channels * area)
        *to = (how == into::add ? *to : Real{}) + sum[v];
    });
  }

  convolution_problem p_;
  extent out_;
  packed_form<V> form_;
};

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
