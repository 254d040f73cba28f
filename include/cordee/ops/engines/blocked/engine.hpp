// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Engine `blocked`: the simplest convolutions over the CPU's layout, between `reference` and
// `direct`.
//
// It adds to `reference` the layout: activations in blocks of V channels, (N, C/V, H, W, V), where
// V numbers fill one register, and weights packed so that those of V filters are one load. Every
// output pixel of a block is one register, and a product is one instruction for V channels. The
// loops remain those of ops/convolution.hpp. `direct` adds to it tiles of many pixels and filters
// in registers, bands of rows that stay in a cache, and prefetches: here each product waits for the
// one before it, and loads its weights again.
#pragma once

#include <algorithm>

#include <cordee/ops/convolution.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::ops {

/// y[b, i, j] (+)= sum over channels c and taps (r, q) of  x[c, row(i, r), row(j, q)] w[b, c, r, q]
/// for every block b of V outputs; row() is where a tap reads, and what lies outside is zero.
template <class Real, int V, class Row>
void blocked_correlation(const extent& in, const extent& out, int window, int samples,
                         const Real* x,  // (N, C/V, H, W, V)
                         const Real* w,  // (K/V, C, R, S, V)
                         Real* y,        // (N, K/V, H', W', V)
                         write_mode mode, const Row& row, cpu::stream s) {
  const std::size_t out_blocks = channel_blocks(out.channels, V), y_plane = out.pixels() * V;
  const int taps = window * window;
  const auto compute = [&](std::size_t task) {  // one block of one sample
    const Real* const xs = x + task / out_blocks * sample_size(in, V);
    const Real* const ws = w + task % out_blocks * static_cast<std::size_t>(in.channels * taps) * V;
    Real* pixel = y + task * y_plane;
    for (int i = 0; i < out.height; ++i)
      for (int j = 0; j < out.width; ++j, pixel += V) {
        vec<Real, V> sum = mode == write_mode::add ? load<Real, V>(pixel) : vec<Real, V>{};
        for (int c = 0; c < in.channels; ++c)
          for (int tap = 0; tap < taps; ++tap) {
            const int h = row(i, tap / window), l = row(j, tap % window);
            if (h < 0 || l < 0 || h >= in.height || l >= in.width) continue;
            const auto at = (std::ptrdiff_t{c / V} * in.height + h) * in.width + l;
            sum += xs[at * V + c % V] * load<Real, V>(ws + (std::ptrdiff_t{c} * taps + tap) * V);
          }
        store<Real, V>(pixel, sum);
      }
  };
  parallel_chunks(s, static_cast<std::size_t>(samples) * out_blocks, 1,
                  [&](std::size_t first, std::size_t last) {
                    for (std::size_t task = first; task < last; ++task) compute(task);
                  });
}

/// Bytes is the size of a register: objects built for different ISAs have different types.
template <int Bytes>
struct blocked_with {
  static constexpr std::string_view name = "blocked";

  template <class Real>
  static constexpr int block(int /*channels*/) {
    return Bytes / static_cast<int>(sizeof(Real));
  }
  /// (K/V, C, R, S, V) for fprop, then (C/V, K, R, S, V) for dgrad.
  template <class Real>
  static std::size_t packed_size(const convolution_problem& p) {
    return forward_size<Real>(p) +
           padded<Real>(p.in.channels) * static_cast<std::size_t>(p.filters * p.window * p.window);
  }
  template <class Real>
  static void pack(const convolution_problem& p,
                   const Real* master,  // (K, C, R, S)
                   Real* packed, cpu::stream) {
    constexpr int V = block<Real>(0);
    const int channels = p.in.channels, taps = p.window * p.window;
    Real* const backward = packed + forward_size<Real>(p);
    std::fill_n(packed, packed_size<Real>(p), Real{});  // channels that only fill a block stay zero
    for (int k = 0; k < p.filters; ++k)
      for (int c = 0; c < channels; ++c)
        for (int tap = 0; tap < taps; ++tap, ++master) {
          packed[((std::ptrdiff_t{k / V} * channels + c) * taps + tap) * V + k % V] = *master;
          backward[((std::ptrdiff_t{c / V} * p.filters + k) * taps + tap) * V + c % V] = *master;
        }
  }
  template <class Real>
  static std::size_t workspace(const convolution_problem&, int /*samples*/, cpu::stream) {
    return 0;
  }

  template <class Real>
  static void fprop(const convolution_problem& p, int samples,
                    const Real* x,  // (N, C/V, H, W, V)
                    const Real* packed,
                    Real* y,  // (N, K/V, H', W', V)
                    cpu::stream s) {
    blocked_correlation<Real, block<Real>(0)>(
        p.in, p.out(), p.window, samples, x, packed, y, write_mode::overwrite,
        [&p](int i, int r) { return i * p.stride + r - p.padding; }, s);
  }
  template <class Real>
  static void dgrad(const convolution_problem& p, int samples,
                    const Real* dy,  // (N, K/V, H', W', V)
                    const Real* packed,
                    Real* dx,  // (N, C/V, H, W, V)
                    write_mode mode, cpu::stream s) {
    blocked_correlation<Real, block<Real>(0)>(
        p.out(), p.in, p.window, samples, dy, packed + forward_size<Real>(p), dx, mode,
        [&p](int h, int r) {  // the output row that reads row h by tap r, or outside
          const int up = h + p.padding - r;
          return up % p.stride == 0 ? up / p.stride : -1;
        },
        s);
  }
  template <class Real>
  static void wgrad(const convolution_problem& p, int samples,
                    const Real* x,   // (N, C/V, H, W, V)
                    const Real* dy,  // (N, K/V, H', W', V)
                    Real* dw,        // (K, C, R, S)
                    write_mode mode, Real* /*workspace*/, cpu::stream s) {
    constexpr int V = block<Real>(0);
    const extent in = p.in, out = p.out();
    const auto taps = static_cast<std::size_t>(p.window * p.window),
               weights = static_cast<std::size_t>(in.channels) * taps;  // of one filter
    const auto compute = [&](std::size_t filter_block, std::size_t weight) {
      const int c = static_cast<int>(weight / taps), tap = static_cast<int>(weight % taps);
      vec<Real, V> sum{};
      for (int n = 0; n < samples; ++n) {
        const Real* const xs = x + static_cast<std::size_t>(n) * sample_size(in, V);
        const Real* d = dy + static_cast<std::size_t>(n) * sample_size(out, V) +
                        filter_block * out.pixels() * V;
        for (int i = 0; i < out.height; ++i)
          for (int j = 0; j < out.width; ++j, d += V) {
            const int h = i * p.stride + tap / p.window - p.padding,
                      l = j * p.stride + tap % p.window - p.padding;
            if (h < 0 || l < 0 || h >= in.height || l >= in.width) continue;
            const auto at = (std::ptrdiff_t{c / V} * in.height + h) * in.width + l;
            sum += xs[at * V + c % V] * load<Real, V>(d);
          }
      }
      const int first = static_cast<int>(filter_block) * V;
      for (int v = 0; v < std::min(V, p.filters - first); ++v) {
        Real& to = dw[static_cast<std::size_t>(first + v) * weights + weight];
        to = (mode == write_mode::add ? to : Real{}) + sum[v];
      }
    };
    parallel_chunks(s, channel_blocks(p.filters, V) * weights, 1,
                    [&](std::size_t first, std::size_t last) {
                      for (std::size_t task = first; task < last; ++task)
                        compute(task / weights, task % weights);
                    });
  }

 private:
  /// Channels with those that only fill the last block.
  template <class Real>
  static std::size_t padded(int channels) {
    return channel_blocks(channels, block<Real>(0)) * static_cast<std::size_t>(block<Real>(0));
  }
  template <class Real>
  static std::size_t forward_size(const convolution_problem& p) {
    return padded<Real>(p.filters) * static_cast<std::size_t>(p.in.channels * p.window * p.window);
  }
};

}  // namespace detail::ops

/// The engine for the ISA of this build.
using blocked = detail::ops::blocked_with<detail::ops::register_bytes>;
static_assert(ConvolutionEngine<blocked, float> && ConvolutionEngine<blocked, double>);

}  // namespace cordee::inline CORDEE_ABI
