// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// ops/quantise.hpp's arithmetic on a register of numbers, and what a quantised layer does with
// whole activations: their range, what quantisation leaves of them, the mask of their gradients.
//
// At -O2 compilers vectorise none of these loops. Every number is treated alone, as the functions
// of one number treat it, so results do not depend on workers or registers.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>

#include <cordee/device/cpu.hpp>
#include <cordee/ops/quantise.hpp>
#include <cordee/ops/simd.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// whole_within of each, still as floats.
template <int V>
[[gnu::always_inline]] inline vec<float, V> whole_lanes(vec<float, V> x, float low, float high) {
  const vec<float, V> shift = vec<float, V>{} + 0x1.8p23f, least = vec<float, V>{} + low,
                      most = vec<float, V>{} + high;
  const vec<float, V> floored = x > least ? x : least;
  const vec<float, V> within = floored < most ? floored : most;
  return (within + shift) - shift;
}

/// V numbers to bytes, as affine::quantise does one. Of a float of unit 1 the low bits are the
/// whole number.
template <int V>
struct byte_lanes {
  affine<float> k;
  vec<float, V> inverse, least, most, shift;
  vec<std::int32_t, V> zero;

  explicit byte_lanes(const affine<float>& by)
      : k(by),
        inverse(vec<float, V>{} + by.inverse),
        least(vec<float, V>{} + static_cast<float>(by.to.low - by.zero)),
        most(vec<float, V>{} + static_cast<float>(by.to.high - by.zero)),
        shift(vec<float, V>{} + 0x1.8p23f),
        zero(vec<std::int32_t, V>{} + by.zero) {}

  [[gnu::always_inline]] void quantise(const float* from, std::uint8_t* to) const {
    const vec<float, V> x = load<float, V>(from) * inverse;
    const vec<float, V> floored = x > least ? x : least;
    const vec<float, V> shifted = (floored < most ? floored : most) + shift;
    vec<std::int32_t, V> whole;
    std::memcpy(&whole, &shifted, sizeof whole);
    store<std::uint8_t, V>(to, __builtin_convertvector(whole + zero, vec<std::uint8_t, V>));
  }
};

/// f.template operator()<V>(i) for whole registers of 0 .. n-1, then <1> for each number left.
template <int V, class F>
void each_register(cpu::stream s, std::size_t n, const F& f) {
  parallel(s, n, 4096, [&f](std::size_t first, std::size_t last) {
    const F local = f;
    std::size_t i = first;
    for (; i + V <= last; i += V) local.template operator()<V>(i);
    for (; i < last; ++i) local.template operator()<1>(i);
  });
}

}  // namespace detail

/// The range of n numbers; not a number where one of them is not finite.
template <int V = lanes<float>>
real_range range_of(std::size_t n, const float* x, cpu::stream s) {
  std::mutex mutex;
  real_range all;
  bool finite = true;
  parallel(s, n, 4096, [&](std::size_t first, std::size_t last) {
    real_range mine;
    vec<float, V> low = vec<float, V>{} + mine.low, high = vec<float, V>{} + mine.high, rest{};
    std::size_t i = first;
    for (; i + V <= last; i += V) {
      const vec<float, V> v = load<float, V>(x + i);
      low = v < low ? v : low;
      high = v > high ? v : high;
      rest += v * 0.0f;  // stays zero unless one is not finite
    }
    float off = 0;
    for (int lane = 0; lane < V; ++lane) {
      mine.widen({low[lane], high[lane]});
      off += rest[lane];
    }
    for (; i < last; ++i) {
      mine.widen({x[i], x[i]});
      off += x[i] * 0.0f;
    }
    const std::lock_guard lock(mutex);
    all.widen(mine);
    finite = finite && off == 0;
  });
  constexpr float none = std::numeric_limits<float>::quiet_NaN();
  return finite ? all : real_range{none, none};
}

/// y <- what quantisation leaves of x
template <int V = lanes<float>>
void simulate(std::size_t n, const float* x, const affine<float>& k, float* y, cpu::stream s) {
  const auto least = static_cast<float>(k.to.low - k.zero),
             most = static_cast<float>(k.to.high - k.zero);
  detail::each_register<V>(s, n, [=]<int W>(std::size_t i) {
    store<float, W>(
        y + i, detail::whole_lanes<W>(load<float, W>(x + i) * k.inverse, least, most) * k.scale);
  });
}

/// g <- g where the gradient passes x straight through, 0 elsewhere; or adds that to `onto`.
template <int V = lanes<float>>
void pass_straight(std::size_t n, const float* x, const affine<float>& k, float* g, float* onto,
                   cpu::stream s) {
  const auto least = static_cast<float>(k.to.low - k.zero),
             most = static_cast<float>(k.to.high - k.zero);
  detail::each_register<V>(s, n, [=]<int W>(std::size_t i) {
    const vec<float, W> whole =
        detail::whole_lanes<W>(load<float, W>(x + i) * k.inverse, least - 1, most + 1);
    // Of bits, as nvcc 13 has no code for a vector of zeros here.
    const vec<std::int32_t, W> inside = (whole >= least) & (whole <= most);
    const auto gradient = std::bit_cast<vec<std::int32_t, W>>(load<float, W>(g + i));
    const auto passed = std::bit_cast<vec<float, W>>(gradient & inside);
    if (onto == nullptr)
      store<float, W>(g + i, passed);
    else
      store<float, W>(onto + i, load<float, W>(onto + i) + passed);
  });
}

/// Weights (filters, each) as bytes, their scales, and what quantisation leaves of them.
inline void quantise_filters(std::size_t filters, std::size_t each, const float* w, std::int8_t* q,
                             float* left, float* scales, cpu::stream) {
  for (std::size_t f = 0; f < filters; ++f) {
    scales[f] = quantise_channel(each, w + f * each, q + f * each);
    for (std::size_t i = f * each; i < (f + 1) * each; ++i)
      left[i] = static_cast<float>(q[i]) * scales[f];
  }
}

}  // namespace cordee::inline CORDEE_ABI
