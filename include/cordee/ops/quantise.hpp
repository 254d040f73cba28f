// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Affine quantisation of a range of reals, and what training does with it (Jacob et al., 2018).
//
//   s = (b - a) / (high - low),  z = round(low - a / s)    for the range [a, b], extended to hold 0
//   q = clip(round(x (1 / s)) + z, low, high),  x' = s (q - z)
//   dL/dx = dL/dx' where low <= round(x (1 / s)) + z <= high, 0 elsewhere   (straight through)
//
// Ties go to the even number. Weights have a range for each output channel, symmetric, z = 0,
// s = max|W| / 127; they are never clipped, so their gradients pass whole. What is not finite in a
// range makes its scale, and so all that is decoded by it, not a number.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <cordee/precision/int8.hpp>

namespace cordee::inline CORDEE_ABI {

/// The integers low .. high.
struct whole_range {
  int low = 0, high = 255;
  friend constexpr bool operator==(const whole_range&, const whole_range&) = default;
};
inline constexpr whole_range unsigned_bytes{0, 255}, signed_bytes{-128, 127},
    symmetric_bytes{-127, 127};

/// The smallest and the largest of some numbers; none seen: low > high.
struct real_range {
  float low = std::numeric_limits<float>::infinity();
  float high = -std::numeric_limits<float>::infinity();

  [[nodiscard]] CORDEE_HOST_DEVICE constexpr bool seen() const { return low <= high; }
  CORDEE_HOST_DEVICE constexpr void widen(const real_range& by) {
    low = by.low < low ? by.low : low;
    high = by.high > high ? by.high : high;
  }
  friend constexpr bool operator==(const real_range&, const real_range&) = default;
};

/// Which integers stand for which reals. `inverse` is 1 / scale, rounded: kernels multiply.
template <std::floating_point Real>
struct affine {
  Real scale = 1, inverse = 1;
  int zero = 0;
  whole_range to{};

  CORDEE_HOST_DEVICE constexpr int quantise(Real x) const {
    return whole_within(x * inverse, to.low - zero, to.high - zero) + zero;
  }
  CORDEE_HOST_DEVICE constexpr Real dequantise(int q) const {
    return static_cast<Real>(q - zero) * scale;
  }
  /// What quantisation leaves of x.
  CORDEE_HOST_DEVICE constexpr Real simulate(Real x) const { return dequantise(quantise(x)); }
  /// Whether a gradient passes: the rounded number before it is clipped decides, its bounds
  /// included.
  CORDEE_HOST_DEVICE constexpr bool passes(Real x) const {
    const int least = to.low - zero, most = to.high - zero;
    const int rounded = whole_within(x * inverse, least - 1, most + 1);
    return least <= rounded && rounded <= most;
  }
};

namespace detail {
/// A scale is at least the smallest whose inverse is a number; not a number stays so.
template <std::floating_point Real>
constexpr affine<Real> affine_of(double wanted, whole_range to) {
  constexpr double least = std::numeric_limits<Real>::min();
  const auto scale = static_cast<Real>(wanted < least ? least : wanted);
  return {scale, 1 / scale, std::clamp(0, to.low, to.high), to};
}
inline constexpr double no_number = std::numeric_limits<double>::quiet_NaN();
}  // namespace detail

/// For reals from a to b. Without width, zero is all there is: scale 1. Nothing seen (a > b) is no
/// range: not a number.
template <std::floating_point Real>
constexpr affine<Real> fit_affine(Real a, Real b, whole_range to) {
  const double low = std::min<double>(a, 0), high = std::max<double>(b, 0), width = high - low;
  if (!(a <= b) || !(width <= std::numeric_limits<double>::max()))
    return detail::affine_of<Real>(detail::no_number, to);
  if (width == 0) return detail::affine_of<Real>(1, to);
  affine<Real> k = detail::affine_of<Real>(width / (to.high - to.low), to);
  k.zero = whole_within(to.low - low / static_cast<double>(k.scale), to.low, to.high);
  return k;
}

/// What quantises a layer's input in training: the running range; its own where there is none yet,
/// or where it is not finite, which must reach the loss. `any`: there are numbers.
constexpr affine<float> fit_input(const real_range& running, const real_range& seen, bool any) {
  const real_range& by = (!any || seen.seen()) && running.seen() ? running : seen;
  return fit_affine(by.low, by.high, unsigned_bytes);
}

/// What a layer in a device's memory knows of its input.
struct input_record {
  real_range seen;         // since the host last asked
  affine<float> by;        // what quantises it now
  std::int32_t known = 0;  // whether there was a range when it was last recalled
};

/// For reals up to |x| on both sides of zero.
template <std::floating_point Real>
constexpr affine<Real> fit_symmetric(Real x) {
  const double largest = x < 0 ? -x : x;
  if (!(largest <= std::numeric_limits<Real>::max()))
    return detail::affine_of<Real>(detail::no_number, symmetric_bytes);
  return detail::affine_of<Real>(largest == 0 ? 1 : largest / 127, symmetric_bytes);
}

/// The n weights of one output channel; returns its scale. All zero: scale 1.
template <std::floating_point Real>
constexpr Real quantise_channel(std::size_t n, const Real* w, std::int8_t* q) {
  Real largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Real a = w[i] < 0 ? -w[i] : w[i];
    if (!(a <= largest)) largest = a;  // what is no number is largest, and stays
    if (largest != largest) break;
  }
  const affine<Real> k = fit_symmetric(largest);
  for (std::size_t i = 0; i < n; ++i) q[i] = static_cast<std::int8_t>(k.quantise(w[i]));
  return k.scale;
}

}  // namespace cordee::inline CORDEE_ABI
