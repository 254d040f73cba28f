// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Affine quantisation to integers, and fake quantisation with the straight-through estimator for
// training (Jacob et al., 2018).
//
//   s = (b - a) / (high - low),  z = round(low - a / s)    for the range [a, b], extended to hold 0
//   q = clip(round(x (1 / s)) + z, low, high),  x' = s (q - z)
//   dL/dx = dL/dx' where low <= round(x (1 / s)) + z <= high, 0 elsewhere   (straight through)
//
// Rounding is half to even. Activations are quantised per tensor, to 0 .. 255. Weights are
// quantised per output channel and symmetrically, z = 0, s = max|W| / (2^(b-1) - 1) of b bits, 127
// of 8; they are never clipped, so none of their gradients is masked. A range that is not finite
// has the scale NaN, and so everything dequantised with it is NaN.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cordee/core/limits.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/precision/int8.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The integers low .. high.
struct integer_range {
  int low = 0, high = 255;
  friend constexpr bool operator==(const integer_range&, const integer_range&) = default;
};
inline constexpr integer_range unsigned_bytes{0, 255}, signed_bytes{-128, 127};

/// The minimum and maximum of some numbers; of no numbers: low > high.
struct real_range {
  float low = core::limits<float>::infinity();
  float high = -core::limits<float>::infinity();

  [[nodiscard]] CORDEE_HOST_DEVICE constexpr bool has_values() const { return low <= high; }
  CORDEE_HOST_DEVICE constexpr void widen(const real_range& other) {
    low = other.low < low ? other.low : low;
    high = other.high > high ? other.high : high;
  }
  friend constexpr bool operator==(const real_range&, const real_range&) = default;
};

/// Maps reals to integers of `range` and back. Kernels multiply by `inverse_scale`, 1 / scale
/// rounded.
template <std::floating_point Real>
struct affine_quantizer {
  Real scale = 1, inverse_scale = 1;
  int zero_point = 0;
  integer_range range{};

  CORDEE_HOST_DEVICE constexpr int quantize(Real x) const {
    return detail::precision::round_clamped(x * inverse_scale, range.low - zero_point,
                                            range.high - zero_point) +
           zero_point;
  }
  CORDEE_HOST_DEVICE constexpr Real dequantize(int q) const {
    return static_cast<Real>(q - zero_point) * scale;
  }
  CORDEE_HOST_DEVICE constexpr Real fake_quantize(Real x) const { return dequantize(quantize(x)); }
  /// Whether x is quantised without clipping, so that the straight-through estimator passes its
  /// gradient: the rounded number decides, bounds included.
  CORDEE_HOST_DEVICE constexpr bool in_range(Real x) const {
    const int least = range.low - zero_point, most = range.high - zero_point;
    const int rounded = detail::precision::round_clamped(x * inverse_scale, least - 1, most + 1);
    return least <= rounded && rounded <= most;
  }
};

/// Raises the scale to the smallest whose inverse is finite; NaN stays NaN.
template <std::floating_point Real>
constexpr affine_quantizer<Real> quantizer_of_scale(double wanted, integer_range range) {
  constexpr double least = core::limits<Real>::min();
  const auto scale = static_cast<Real>(wanted < least ? least : wanted);
  return {scale, 1 / scale, std::min(std::max(0, range.low), range.high), range};
}
inline constexpr double nan_scale = core::limits<double>::quiet_NaN();

/// The affine quantizer of the reals a .. b. a = b = 0: scale 1. An empty range (a > b) or one that
/// is not finite: scale NaN.
template <std::floating_point Real>
constexpr affine_quantizer<Real> fit_affine(Real a, Real b, integer_range range) {
  const double low = std::min<double>(a, 0), high = std::max<double>(b, 0), width = high - low;
  if (!(a <= b) || !(width <= core::limits<double>::max()))
    return quantizer_of_scale<Real>(nan_scale, range);
  if (width == 0) return quantizer_of_scale<Real>(1, range);
  affine_quantizer<Real> k = quantizer_of_scale<Real>(width / (range.high - range.low), range);
  k.zero_point = detail::precision::round_clamped(range.low - low / static_cast<double>(k.scale),
                                                  range.low, range.high);
  return k;
}

/// The quantizer of a layer's input in training: of the running range; of the batch's own range
/// where there is no running one yet, or where the batch's is not finite, so that the loss becomes
/// NaN. A batch of no samples is not `nonempty`.
constexpr affine_quantizer<float> fit_input(const real_range& running, const real_range& batch,
                                            bool nonempty) {
  const bool use_running = (!nonempty || batch.has_values()) && running.has_values();
  return fit_affine(use_running ? running.low : batch.low, use_running ? running.high : batch.high,
                    unsigned_bytes);
}

/// What is observed of a layer's input, in the memory of a device.
struct observed_input {
  real_range observed;                // since the host last read it
  affine_quantizer<float> quantizer;  // the current one
  std::int32_t has_range = 0;         // evaluation: whether there was a running range (0 or 1)
};

/// Where a layer's input is quantized to, in the memory of a device, by what writes it.
struct quantized_input {
  std::uint8_t* bytes = nullptr;                // in the order of the input; null: nowhere
  const float *low = nullptr, *high = nullptr;  // of the running range
  observed_input* record = nullptr;
  std::size_t filling = 0;  // zeros that pad blocks of channels, and are no data
  bool frozen = false;      // a running range stays, and nothing is observed
};

/// Where a layer's n dequantized inputs go, an operand of its weight gradient, by what writes the
/// other one.
template <class Out>
struct dequantized_input {
  std::size_t n = 0;
  const float* x = nullptr;
  const affine_quantizer<float>* quantizer = nullptr;
  Out* out = nullptr;
};

/// The symmetric quantizer of the reals -|x| .. |x| in integers of `bits` bits.
template <std::floating_point Real>
constexpr affine_quantizer<Real> fit_symmetric(Real x, int bits = 8) {
  const int most = (1 << (bits - 1)) - 1;
  const double largest = x < 0 ? -x : x;
  if (!(largest <= core::limits<Real>::max()))
    return quantizer_of_scale<Real>(nan_scale, {-most, most});
  return quantizer_of_scale<Real>(largest == 0 ? 1 : largest / most, {-most, most});
}

/// Quantises the n weights of one output channel symmetrically. Returns the scale; all zero: 1.
template <std::floating_point Real, std::signed_integral Q>
constexpr Real quantize_channel(std::size_t n, const Real* w, Q* q, int bits = 8 * sizeof(Q)) {
  Real largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Real a = w[i] < 0 ? -w[i] : w[i];
    if (!(a <= largest)) largest = a;  // true for NaN
    if (largest != largest) break;     // NaN stays the largest
  }
  const affine_quantizer<Real> k = fit_symmetric(largest, bits);
  for (std::size_t i = 0; i < n; ++i) q[i] = static_cast<Q>(k.quantize(w[i]));
  return k.scale;
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
