// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Eight-bit integers, with a scale of their own for each range of numbers.
//
//   q = clip(round-half-even(x (1 / s)), -127, 127),  x' = s q,  s = max|x| / 127
//
// On a wire that is all of it. Layers train with FP32 masters and hand on FP32 activations; what is
// of eight bits are the operands of convolutions (ops/quantise.hpp, nn/quantised_convolution.hpp).
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>

#include <cordee/precision/precision.hpp>

namespace cordee::inline CORDEE_ABI {

/// The whole number nearest to x, of two the even one, of low .. high (less than 2^20); `low` for
/// what is no number. To be within comes before rounding: it is the same for whole bounds, safe for
/// infinities, and keeps the compiler from making a product x = a b and the sum below one
/// operation.
template <std::floating_point Real>
CORDEE_HOST_DEVICE constexpr int whole_within(Real x, int low, int high) {
  constexpr Real shift = Real{1.5} * (std::uint64_t{1} << (std::numeric_limits<Real>::digits - 1));
  const auto least = static_cast<Real>(low), most = static_cast<Real>(high);
  const Real floored = x > least ? x : least;
  const Real within = floored < most ? floored : most;
  return static_cast<int>((within + shift) - shift);  // a number of unit 1
}

struct int8 {
  using storage = std::int8_t;
  using activation = float;  // what layers hand on
  using master = float;
  using accumulate = float;
  struct scaling {
    float scale = 1;  // or not a number
    std::int32_t zero = 0;
  };

  static constexpr bool scales_loss = false;
  static constexpr std::string_view name = "int8";

  /// For numbers up to |x|, symmetric; not finite makes everything that is encoded so.
  CORDEE_HOST_DEVICE static constexpr scaling fit(float x) {
    const std::uint32_t a = std::bit_cast<std::uint32_t>(x) & 0x7fffffffu;
    if (a >= 0x7f800000u) return {std::bit_cast<float>(0x7fc00000u), 0};
    if (a == 0) return {};
    const float scale = std::bit_cast<float>(a) / 127;
    const float least = std::bit_cast<float>(0x00800000u);  // 1 / scale: a number
    return {scale > least ? scale : least, 0};
  }
  /// -128 is never said.
  CORDEE_HOST_DEVICE static constexpr std::int8_t encode(float x, scaling k) {
    const int q = whole_within(x * (1 / k.scale), -127 - k.zero, 127 - k.zero);
    return static_cast<std::int8_t>(q + k.zero);
  }
  CORDEE_HOST_DEVICE static constexpr float decode(std::int8_t q, scaling k) {
    return static_cast<float>(q - k.zero) * k.scale;
  }
};
static_assert(Quantised<int8>);

}  // namespace cordee::inline CORDEE_ABI
