// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Passes that treat every number alone: y <- f(x).
//
// Each number is written once by one worker, so results do not depend on the number of workers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/protocol.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/lanewise.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI {

/// Calls f(i) for i = 0 .. n-1; f may not care about the order.
template <class F>
void for_each(cpu::stream s, std::size_t n, const F& f) {
  constexpr std::size_t grain = 4096;  // below this, waking a worker costs more than the work
  parallel(s, n, grain, [&f](std::size_t first, std::size_t last) {
    const F local = f;  // through the reference GCC does not vectorise
    for (std::size_t i = first; i < last; ++i) local(i);
  });
}

/// f(0) in stream order: one thread's work, where numbers of the device are
template <class F>
void once(cpu::stream, const F& f) {
  f(0);
}

/// f(place) for the numbers 0 .. n-1, a register of them at a time: see lanewise.
template <class Real, class F>
void for_each_lane(cpu::stream s, std::size_t n, const F& f) {
  constexpr std::size_t grain = 4096;
  parallel(s, n, grain, [&f](std::size_t first, std::size_t last) {
    const F local = f;  // through the reference its pointers would be read again in each turn
    lanewise<Real>(first, last, local);
  });
}

/// to <- from, in the type that kernels read
template <class Real>
void convert(std::size_t n, const Real* from, Real* to, cpu::stream s) {
  for_each_lane<Real>(s, n, [=](auto at) { at.put(to, at(from)); });
}

/// y <- y + x
template <class Real>
void add(std::size_t n, const Real* x, Real* y, cpu::stream s) {
  for_each_lane<Real>(s, n, [=](auto at) { at.put(y, at(y) + at(x)); });
}

/// x <- x / by
template <class Real>
void divide(std::size_t n, Real by, Real* x, cpu::stream s) {
  for_each_lane<Real>(s, n, [=](auto at) { at.put(x, at(x) / by); });
}

/// y <- (y + x) / by
template <class Real>
void divide_sum(std::size_t n, Real by, const Real* x, Real* y, cpu::stream s) {
  for_each_lane<Real>(s, n, [=](auto at) { at.put(y, (at(y) + at(x)) / by); });
}

/// x <- x + sum of weights[k] (said[k] - x), where said is (weights, n): who agrees stays as it is,
/// to the bit.
template <class Real>
void approach(std::size_t n, const Real* said, std::span<const double> weights, Real* x,
              cpu::stream s) {
  constexpr std::size_t grain = 4096;
  parallel(s, n, grain, [=](std::size_t first, std::size_t last) {
    constexpr std::size_t block = 1024;  // stays in the nearest cache while all neighbours pass
    Real change[block];
    for (std::size_t begin = first; begin < last; begin += block) {
      const std::size_t count = std::min(block, last - begin);
      std::fill_n(change, count, Real{0});
      for (std::size_t k = 0; k < weights.size(); ++k) {
        const auto weight = static_cast<Real>(weights[k]);
        const Real *theirs = said + k * n + begin, *own = x + begin;
        for (std::size_t i = 0; i < count; ++i) change[i] += weight * (theirs[i] - own[i]);
      }
      for (std::size_t i = 0; i < count; ++i) x[begin + i] += change[i];
    }
  });
}

/// x <- factor x
template <class Real>
void scale(std::size_t n, Real factor, Real* x, cpu::stream s) {
  for_each_lane<Real>(s, n, [=](auto at) { at.put(x, at(x) * factor); });
}

/// y <- max(x, 0), not a number stays so
template <class Real>
void relu_forward(std::size_t n, const Real* x, Real* y, cpu::stream s) {
  for_each(s, n, [=](std::size_t i) { y[i] = x[i] < 0 ? Real{0} : x[i]; });
}

/// g <- g where the output y of the ReLU is positive, 0 elsewhere
template <class Real>
void relu_backward(std::size_t n, const Real* y, Real* g, cpu::stream s) {
  for_each(s, n, [=](std::size_t i) { g[i] = y[i] > 0 ? g[i] : Real{0}; });
}

/// x <- (byte / 255 - mean) * scale: bytes in (samples, C, H, W) order to activations in blocks of
/// V channels. Channels that fill up the last block become zero.
template <class Real, int V>
void normalise_bytes(const extent& e, int samples, const std::uint8_t* bytes,
                     const normalisation& by, Real* x, cpu::stream s) {
  expects(static_cast<std::size_t>(e.channels) <= by.mean.size(),
          "normalise_bytes: an image of bytes has at most four channels");
  const std::size_t pixels = e.pixels(), stride = sample_size(e, V);
  parallel(s, static_cast<std::size_t>(samples), 1, [=](std::size_t first, std::size_t last) {
    for (std::size_t n = first; n < last; ++n)
      for (int lane = 0; lane < static_cast<int>(blocks_of(e.channels, V)) * V; ++lane) {
        const auto c = static_cast<std::size_t>(lane);
        Real* out = x + n * stride + c / V * pixels * V + c % V;
        if (lane >= e.channels) {
          for (std::size_t p = 0; p < pixels; ++p) out[p * V] = 0;
          continue;
        }
        const std::uint8_t* in = bytes + (n * static_cast<std::size_t>(e.channels) + c) * pixels;
        const auto mean = static_cast<Real>(by.mean[c]), scale = static_cast<Real>(by.scale[c]);
        for (std::size_t p = 0; p < pixels; ++p)
          out[p * V] = (static_cast<Real>(in[p]) / 255 - mean) * scale;
      }
  });
}

}  // namespace cordee::inline CORDEE_ABI
