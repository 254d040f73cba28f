// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Element-wise passes: y <- f(x).
//
// Each number is written once by one worker, so results do not depend on the number of workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/cpu/channel_registers.hpp>
#include <cordee/ops/cpu/simd_for_each.hpp>
#include <cordee/ops/layout.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI {

/// Calls f(i) for i = 0 .. n-1, in no particular order.
template <class F>
void for_each(cpu::stream s, std::size_t n, const F& f) {
  constexpr std::size_t grain = 4096;  // for fewer, waking a worker costs more than the work
  detail::device::parallel_chunks(s, n, grain, [&f](std::size_t first, std::size_t last) {
    const F copy = f;  // GCC does not vectorise through the reference
    for (std::size_t i = first; i < last; ++i) copy(i);
  });
}

namespace detail::ops {

/// Calls f(0) in stream order, on one thread of the device.
template <class F>
void launch_single(cpu::stream, const F& f) {
  f(0);
}

/// simd_for_each over 0 .. n-1 on the stream's workers.
template <class Real, class F>
void for_each_simd(cpu::stream s, std::size_t n, const F& f) {
  constexpr std::size_t grain = 4096;
  device::parallel_chunks(s, n, grain, [&f](std::size_t first, std::size_t last) {
    const F copy = f;  // through the reference each iteration would reload its pointers
    simd_for_each<Real>(first, last, copy);
  });
}

/// to <- from, rounded to N
template <class Real, class N>
void convert(std::size_t n, const Real* from, N* to, cpu::stream s) {
  for_each_simd<Real>(s, n, [=](auto at) { at.put(to, at(from)); });
}

/// y <- y + x
template <class N>
void add(std::size_t n, const N* x, N* y, cpu::stream s) {
  for_each_simd<precision::wide<N>>(s, n, [=](auto at) { at.put(y, at(y) + at(x)); });
}

/// x <- x / divisor
template <class Real>
void divide(std::size_t n, Real divisor, Real* x, cpu::stream s) {
  for_each_simd<Real>(s, n, [=](auto at) { at.put(x, at(x) / divisor); });
}

/// y <- (y + x) / divisor
template <class Real>
void add_then_divide(std::size_t n, Real divisor, const Real* x, Real* y, cpu::stream s) {
  for_each_simd<Real>(s, n, [=](auto at) { at.put(y, (at(y) + at(x)) / divisor); });
}

/// x <- x + sum over k of weights[k] (received[k] - x), where `received` is (weights, n). Numbers
/// that all neighbors have in common keep their bits.
template <class Real>
void mix_neighbors(std::size_t n, const Real* received, std::span<const double> weights, Real* x,
                   cpu::stream s) {
  constexpr std::size_t grain = 4096;
  device::parallel_chunks(s, n, grain, [=](std::size_t first, std::size_t last) {
    constexpr std::size_t block = 1024;  // stays in the first-level cache for all neighbors
    Real change[block];
    for (std::size_t begin = first; begin < last; begin += block) {
      const std::size_t count = std::min(block, last - begin);
      std::fill_n(change, count, Real{0});
      for (std::size_t k = 0; k < weights.size(); ++k) {
        const auto weight = static_cast<Real>(weights[k]);
        const Real *neighbor = received + k * n + begin, *local = x + begin;
        for (std::size_t i = 0; i < count; ++i) change[i] += weight * (neighbor[i] - local[i]);
      }
      for (std::size_t i = 0; i < count; ++i) x[begin + i] += change[i];
    }
  });
}

/// x <- factor x
template <class Real>
void scale(std::size_t n, Real factor, Real* x, cpu::stream s) {
  for_each_simd<Real>(s, n, [=](auto at) { at.put(x, at(x) * factor); });
}

/// y <- max(x, 0); NaN stays NaN
template <class N>
void relu_forward(std::size_t n, const N* x, N* y, cpu::stream s) {
  for_each_simd<precision::wide<N>>(s, n, [=](auto at) { at.put(y, rectified(at(x))); });
}

/// g <- g where the output y of the ReLU is positive, 0 elsewhere
template <class N>
void relu_backward(std::size_t n, const N* y, N* g, cpu::stream s) {
  for_each_simd<precision::wide<N>>(s, n,
                                    [=](auto at) { at.put(g, where_positive(at(y), at(g))); });
}

/// x <- (byte / 255 - mean) * scale, of bytes (samples, C, H, W) and x (samples, C / V, H, W, V).
/// Channels that pad the last block become zero.
template <class N, int V>
void normalize_bytes(const extent& e, int samples, const std::uint8_t* bytes,
                     const normalization& coefficients, N* x, cpu::stream s) {
  using Real = precision::wide<N>;
  expects(static_cast<std::size_t>(e.channels) <= coefficients.mean.size(),
          "normalize_bytes: an image of bytes has at most four channels");
  const std::size_t pixels = e.pixels(), stride = sample_size(e, V);
  device::parallel_chunks(
      s, static_cast<std::size_t>(samples), 1, [=](std::size_t first, std::size_t last) {
        for (std::size_t n = first; n < last; ++n)
          for (int lane = 0; lane < static_cast<int>(channel_blocks(e.channels, V)) * V; ++lane) {
            const auto c = static_cast<std::size_t>(lane);
            N* out = x + n * stride + c / V * pixels * V + c % V;
            if (lane >= e.channels) {
              for (std::size_t p = 0; p < pixels; ++p) out[p * V] = N{};
              continue;
            }
            const std::uint8_t* in =
                bytes + (n * static_cast<std::size_t>(e.channels) + c) * pixels;
            const auto mean = static_cast<Real>(coefficients.mean[c]),
                       scale = static_cast<Real>(coefficients.scale[c]);
            for (std::size_t p = 0; p < pixels; ++p)
              out[p * V] = precision::rounded<N>((static_cast<Real>(in[p]) / 255 - mean) * scale);
          }
      });
}

}  // namespace detail::ops

}  // namespace cordee::inline CORDEE_ABI
