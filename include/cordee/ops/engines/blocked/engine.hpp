// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Engine `blocked`: the simplest convolutions on the CPU's layout, between `reference` and
// `direct`.
//
// It adds the layout to `reference`: activations in blocks of V channels, (N, C/V, H, W, V), and
// weights in blocks of V filters, (K/V, C, R, S, V), where V numbers fill one register: a product
// for V filters is one instruction. The loops remain those of ops/convolution.hpp, the same code
// for fprop, dgrad and wgrad. `direct` adds tiles of many pixels and filters, whose sums stay in
// registers, bands of rows that stay in a cache, and prefetches; here every product reads and
// writes its sum in memory.
#pragma once

#include <cordee/core/algorithm.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail::ops {

/// f(w, x, y) for each product of one sample, V filters from k on and channel c: the offsets of V
/// weights in (K/V, C, R, S, V), one number of x in (N, C/V, H, W, V), V of y in (N, K/V, I, J, V).
template <int V, class F>
void for_each_product(const convolution_problem& p, int n, int k, int c, const F& f) {
  const auto offset = [](const extent& e, int sample, int channel, int row, int column) {
    const auto blocks = static_cast<std::ptrdiff_t>(channel_blocks(e.channels, V));
    return (((sample * blocks + channel / V) * e.height + row) * e.width + column) * V +
           channel % V;
  };
  const extent in = p.in, out = p.out(), weights{p.filters, in.channels, p.window * p.window};
  for (int tap = 0; tap < weights.width; ++tap)
    for (int i = 0; i < out.height; ++i)
      for (int j = 0; j < out.width; ++j) {
        const int h = i * p.stride + tap / p.window - p.padding,
                  l = j * p.stride + tap % p.window - p.padding;
        if (h >= 0 && l >= 0 && h < in.height && l < in.width)
          f(offset(weights, 0, k, c, tap), offset(in, n, c, h, l), offset(out, n, k, i, j));
      }
}

/// f(n, first channel) for each n < count and each block of V channels, on the stream's workers.
template <int V, class F>
void for_each_block(int count, int channels, cpu::stream s, const F& f) {
  const std::size_t blocks = channel_blocks(channels, V);
  device::parallel_dynamic(s, static_cast<std::size_t>(count) * blocks, [&](std::size_t task) {
    f(static_cast<int>(task / blocks), static_cast<int>(task % blocks) * V);
  });
}

/// Bytes is the size of a register: objects built for different ISAs have different types.
template <int Bytes>
struct blocked_with {
  static constexpr std::string_view name = "blocked";  ///< See ConvolutionEngine.

  /// Returns V, for any number of channels.
  template <class Real>
  static constexpr int block(int /*channels*/) {
    return Bytes / static_cast<int>(sizeof(Real));
  }
  /// Returns the size of the weights in numbers, with filters padded to V.
  template <class Real>
  static std::size_t packed_size(const convolution_problem& p) {
    return sample_size({p.filters, p.in.channels, p.window * p.window}, block<Real>(0));
  }
  /// Interleaves the weights of V filters.
  template <class Real>
  static void pack(const convolution_problem& p,
                   const Real* master,  // (K, C, R, S)
                   Real* packed,        // (K/V, C, R, S, V), zero where filters only fill a block
                   cpu::stream) {
    constexpr int V = block<Real>(0);
    const int weights = p.in.channels * p.window * p.window;  // of one filter
    std::fill_n(packed, packed_size<Real>(p), Real{});
    for (int k = 0; k < p.filters; ++k)
      for (int i = 0; i < weights; ++i)
        packed[(std::ptrdiff_t{k / V} * weights + i) * V + k % V] = *master++;
  }
  /// Returns the memory for the sums of wgrad, as packed weights.
  template <class Real>
  static std::size_t workspace(const convolution_problem& p, int /*samples*/, cpu::stream) {
    return packed_size<Real>(p);
  }

  /// See ConvolutionEngine.
  template <class Real>
  static void fprop(const convolution_problem& p, int samples,
                    const Real* x,       // (N, C/V, H, W, V)
                    const Real* packed,  // (K/V, C, R, S, V)
                    Real* y,             // (N, K/V, I, J, V)
                    cpu::stream s) {
    constexpr int V = block<Real>(0);
    std::fill_n(y, static_cast<std::size_t>(samples) * sample_size(p.out(), V), Real{});
    for_each_block<V>(samples, p.filters, s, [&](int n, int k) {
      for (int c = 0; c < p.in.channels; ++c)
        for_each_product<V>(p, n, k, c, [&](auto iw, auto ix, auto iy) {
          store<Real, V>(y + iy, load<Real, V>(y + iy) + x[ix] * load<Real, V>(packed + iw));
        });
    });
  }

  /// See ConvolutionEngine.
  template <class Real>
  static void dgrad(const convolution_problem& p, int samples,
                    const Real* dy,      // (N, K/V, I, J, V)
                    const Real* packed,  // (K/V, C, R, S, V)
                    Real* dx,            // (N, C/V, H, W, V)
                    write_mode mode, cpu::stream s) {
    constexpr int V = block<Real>(0);
    if (mode == write_mode::overwrite)
      std::fill_n(dx, static_cast<std::size_t>(samples) * sample_size(p.in, V), Real{});
    for_each_block<V>(samples, p.in.channels, s, [&](int n, int first) {
      for (int c = first; c < std::min(first + V, p.in.channels); ++c)
        for (int k = 0; k < p.filters; k += V)
          for_each_product<V>(p, n, k, c, [&](auto iw, auto ix, auto iy) {
            const vec<Real, V> products = load<Real, V>(dy + iy) * load<Real, V>(packed + iw);
            for (int v = 0; v < V; ++v) dx[ix] += products[v];
          });
    });
  }

  /// Computes the gradient as packed weights, then adds it to dw.
  template <class Real>
  static void wgrad(const convolution_problem& p, int samples,
                    const Real* x,   // (N, C/V, H, W, V)
                    const Real* dy,  // (N, K/V, I, J, V)
                    Real* dw,        // (K, C, R, S)
                    write_mode mode,
                    Real* sums,  // (K/V, C, R, S, V), the workspace
                    cpu::stream s) {
    constexpr int V = block<Real>(0);
    const int weights = p.in.channels * p.window * p.window;  // of one filter
    std::fill_n(sums, packed_size<Real>(p), Real{});
    for_each_block<V>(p.in.channels, p.filters, s, [&](int c, int k) {
      for (int n = 0; n < samples; ++n)
        for_each_product<V>(p, n, k, c, [&](auto iw, auto ix, auto iy) {
          store<Real, V>(sums + iw, load<Real, V>(sums + iw) + x[ix] * load<Real, V>(dy + iy));
        });
    });
    for (int k = 0; k < p.filters; ++k)
      for (int i = 0; i < weights; ++i, ++dw)
        *dw = (mode == write_mode::add ? *dw : Real{}) +
              sums[(std::ptrdiff_t{k / V} * weights + i) * V + k % V];
  }
};

}  // namespace detail::ops

/// The engine for the ISA of this build.
using blocked = detail::ops::blocked_with<detail::ops::register_bytes>;
static_assert(ConvolutionEngine<blocked, float> && ConvolutionEngine<blocked, double>);

}  // namespace cordee::inline CORDEE_ABI
