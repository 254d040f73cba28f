// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The passes of a quantised layer over activations and weights: the range of activations, fake
// quantisation, the straight-through estimator, and weights as bytes; with ops/quantize.hpp's
// arithmetic on SIMD registers.
//
// At -O2 compilers vectorise none of these loops. Each result has the bits of the function of one
// number, so it depends on neither workers nor registers.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include <cordee/core/limits.hpp>
#include <cordee/core/mutex.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/quantize.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// whole_within of each lane, as floats.
template <int V>
[[gnu::always_inline]] inline vec<float, V> round_lanes(vec<float, V> x, float low, float high) {
  const vec<float, V> shift = vec<float, V>{} + 0x1.8p23f, least = vec<float, V>{} + low,
                      most = vec<float, V>{} + high;
  const vec<float, V> floored = x > least ? x : least;
  const vec<float, V> within = floored < most ? floored : most;
  return (within + shift) - shift;
}

/// affine_quantizer::quantize of V numbers, to bytes. After the shift a float's unit is 1, and its
/// low bits are the integer.
template <int V>
struct byte_quantizer {
  affine_quantizer<float> k;
  vec<float, V> inverse, least, most, shift;
  vec<std::int32_t, V> zero;

  explicit byte_quantizer(const affine_quantizer<float>& quantizer)
      : k(quantizer),
        inverse(vec<float, V>{} + quantizer.inverse_scale),
        least(vec<float, V>{} + static_cast<float>(quantizer.range.low - quantizer.zero_point)),
        most(vec<float, V>{} + static_cast<float>(quantizer.range.high - quantizer.zero_point)),
        shift(vec<float, V>{} + 0x1.8p23f),
        zero(vec<std::int32_t, V>{} + quantizer.zero_point) {}

  [[gnu::always_inline]] void quantize(const float* from, std::uint8_t* to) const {
    const vec<float, V> x = load<float, V>(from) * inverse;
    const vec<float, V> floored = x > least ? x : least;
    const vec<float, V> shifted = (floored < most ? floored : most) + shift;
    vec<std::int32_t, V> whole;
    std::memcpy(&whole, &shifted, sizeof whole);
    store_narrowed<V>(to, (whole + zero) & 255);
  }
  [[nodiscard]] std::uint8_t byte_of(float x) const {
    return static_cast<std::uint8_t>(k.quantize(x));
  }
};

/// Calls f.template operator()<V>(i) for whole registers of 0 .. n-1, then <1> for each remaining
/// number.
template <int V, class F>
void for_each_register(cpu::stream s, std::size_t n, const F& f) {
  device::parallel_chunks(s, n, 4096, [&f](std::size_t first, std::size_t last) {
    const F local = f;
    std::size_t i = first;
    for (; i + V <= last; i += V) local.template operator()<V>(i);
    for (; i < last; ++i) local.template operator()<1>(i);
  });
}

/// The range of n numbers without `filling` zeros: zero is in it if there are more of them.
inline real_range range_without_filling(std::size_t n, const float* x, std::size_t filling,
                                        cpu::stream s) {
  core::mutex mutex;
  real_range total;
  std::size_t zeros = 0;
  bool finite = true;
  device::parallel_chunks(s, n, 4096, [&](std::size_t first, std::size_t last) {
    real_range range;
    std::size_t count = 0;
    float sum = 0;
    for (std::size_t i = first; i < last; ++i) {
      if (x[i] == 0)
        ++count;
      else
        range.widen({x[i], x[i]});
      sum += x[i] * 0.0f;  // stays zero unless x[i] is not finite
    }
    const core::scoped_lock lock(mutex);
    total.widen(range);
    zeros += count;
    finite = finite && sum == 0;
  });
  if (zeros > filling) total.widen({0, 0});
  constexpr float nan = core::limits<float>::quiet_NaN();
  return finite ? total : real_range{nan, nan};
}

/// The range of n numbers, of which `filling` are zeros that pad blocks of channels; NaN .. NaN
/// where one of them is not finite.
template <int V = lanes<float>>
real_range range_of(std::size_t n, const float* x, cpu::stream s, std::size_t filling = 0) {
  if (filling != 0) return range_without_filling(n, x, filling, s);
  core::mutex mutex;
  real_range total;
  bool finite = true;
  device::parallel_chunks(s, n, 4096, [&](std::size_t first, std::size_t last) {
    real_range range;
    vec<float, V> low = vec<float, V>{} + range.low, high = vec<float, V>{} + range.high,
                  nonfinite{};
    std::size_t i = first;
    for (; i + V <= last; i += V) {
      const vec<float, V> v = load<float, V>(x + i);
      low = v < low ? v : low;
      high = v > high ? v : high;
      nonfinite += v * 0.0f;  // stays zero unless v is not finite
    }
    float sum = 0;
    for (int lane = 0; lane < V; ++lane) {
      range.widen({low[lane], high[lane]});
      sum += nonfinite[lane];
    }
    for (; i < last; ++i) {
      range.widen({x[i], x[i]});
      sum += x[i] * 0.0f;
    }
    const core::scoped_lock lock(mutex);
    total.widen(range);
    finite = finite && sum == 0;
  });
  constexpr float nan = core::limits<float>::quiet_NaN();
  return finite ? total : real_range{nan, nan};
}

/// y <- k.fake_quantize(x)
template <int V = lanes<float>>
void fake_quantize(std::size_t n, const float* x, const affine_quantizer<float>& k, float* y,
                   cpu::stream s) {
  const auto least = static_cast<float>(k.range.low - k.zero_point),
             most = static_cast<float>(k.range.high - k.zero_point);
  for_each_register<V>(s, n, [=]<int W>(std::size_t i) {
    store<float, W>(y + i,
                    round_lanes<W>(load<float, W>(x + i) * k.inverse_scale, least, most) * k.scale);
  });
}

/// The straight-through estimator: g <- g where k.in_range(x), 0 elsewhere. Where `sum` is given,
/// adds that to it instead.
template <int V = lanes<float>>
void straight_through(std::size_t n, const float* x, const affine_quantizer<float>& k, float* g,
                      float* sum, cpu::stream s) {
  const auto least = static_cast<float>(k.range.low - k.zero_point),
             most = static_cast<float>(k.range.high - k.zero_point);
  for_each_register<V>(s, n, [=]<int W>(std::size_t i) {
    const vec<float, W> rounded =
        round_lanes<W>(load<float, W>(x + i) * k.inverse_scale, least - 1, most + 1);
    // Masked as bits: nvcc 13 generates no code for a vector of zeros here.
    const vec<std::int32_t, W> inside = (rounded >= least) & (rounded <= most);
    const auto gradient = std::bit_cast<vec<std::int32_t, W>>(load<float, W>(g + i));
    const auto passed = std::bit_cast<vec<float, W>>(gradient & inside);
    if (sum == nullptr)
      store<float, W>(g + i, passed);
    else
      store<float, W>(sum + i, load<float, W>(sum + i) + passed);
  });
}

/// Quantises weights per filter, and writes them fake-quantised too.
inline void quantize_filters(std::size_t filters, std::size_t size,
                             const float* w,         // (filters, size)
                             std::int8_t* q,         // (filters, size)
                             float* fake_quantized,  // (filters, size)
                             float* scales,          // (filters)
                             cpu::stream, int bits = 8) {
  for (std::size_t f = 0; f < filters; ++f) {
    scales[f] = quantize_channel(size, w + f * size, q + f * size, bits);
    for (std::size_t i = f * size; i < (f + 1) * size; ++i)
      fake_quantized[i] = static_cast<float>(q[i]) * scales[f];
  }
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
