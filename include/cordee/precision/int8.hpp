// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Eight-bit integers with one scale for each range of numbers.
//
//   q = clip(round-half-even(x (1 / s)), -127, 127),  x' = s q,  s = max|x| / 127
//
// That is the wire format. Layers train with FP32 master weights and activations; convolutions have
// eight-bit operands (ops/quantize.hpp, nn/quantized_convolution.hpp).
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <string_view>

#include <cordee/core/limits.hpp>
#include <cordee/precision/precision.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::precision {

/// x clamped to low .. high (absolute values below 2^20) and rounded to the nearest integer, ties
/// to even; `low` for NaN. Clamping precedes rounding: for integer bounds the result is the same,
/// it is safe for infinities, and it prevents a fused multiply-add of a product x = a b and the sum
/// below.
template <std::floating_point Real>
CORDEE_HOST_DEVICE constexpr int round_clamped(Real x, int low, int high) {
  constexpr Real shift = Real{1.5} * (std::uint64_t{1} << (core::limits<Real>::digits - 1));
  const auto least = static_cast<Real>(low), most = static_cast<Real>(high);
  const Real floored = x > least ? x : least;
  const Real clamped = floored < most ? floored : most;
  return static_cast<int>((clamped + shift) - shift);  // the sum has unit 1
}

}  // namespace detail::precision

/// Forward convolutions multiply eight-bit operands; activations, their gradients and master
/// weights are floats. Also a format for messages.
struct int8 {
  using storage = std::int8_t;  ///< Type of operands and messages.
  using activation = float;     ///< Type between layers.
  using master = float;         ///< See Precision.
  using accumulate = float;     ///< Type of sums outside convolutions, whose own are std::int32_t.
  /// Scale of one range of numbers on the wire.
  struct scaling {
    float scale = 1;        ///< s, at least 2^-126; NaN for a range that is not finite.
    std::int32_t zero = 0;  ///< Code of the number 0; `fit` sets 0.
  };

  static constexpr bool scales_loss = false;        ///< Gradients have the exponents of floats.
  static constexpr std::string_view name = "int8";  ///< In logs, messages and checkpoints.

  /// Symmetric scaling for numbers up to |x|. If x is not finite, every encoded number decodes to
  /// NaN.
  CORDEE_HOST_DEVICE static constexpr scaling fit(float x) {
    const std::uint32_t a = std::bit_cast<std::uint32_t>(x) & 0x7fffffffu;
    if (a >= 0x7f800000u) return {std::bit_cast<float>(0x7fc00000u), 0};
    if (a == 0) return {};
    const float scale = std::bit_cast<float>(a) / 127;
    const float least = std::bit_cast<float>(0x00800000u);  // 1 / scale stays finite
    return {scale > least ? scale : least, 0};
  }
  /// Returns a code in -127 .. 127.
  CORDEE_HOST_DEVICE static constexpr std::int8_t encode(float x, scaling k) {
    const int q = detail::precision::round_clamped(x * (1 / k.scale), -127 - k.zero, 127 - k.zero);
    return static_cast<std::int8_t>(q + k.zero);
  }
  /// Multiplies by s; NaN for a range that is not finite.
  CORDEE_HOST_DEVICE static constexpr float decode(std::int8_t q, scaling k) {
    return static_cast<float>(q - k.zero) * k.scale;
  }
};
static_assert(Quantized<int8>);

namespace detail::precision {

/// Requires 2 to 8 bits.
constexpr std::string_view low_bit_name(int bits) {
  constexpr std::string_view names[] = {"int8, weights of 2 bits", "int8, weights of 3 bits",
                                        "int8, weights of 4 bits", "int8, weights of 5 bits",
                                        "int8, weights of 6 bits", "int8, weights of 7 bits",
                                        "int8, weights of 8 bits"};
  return names[bits - 2];
}

}  // namespace detail::precision

/// int8 whose convolutions have weights of fewer bits, -(2^(b-1) - 1) .. 2^(b-1) - 1: with 2 bits
/// -1, 0 and 1. Activations remain bytes. CPU only.
template <int WeightBits>
struct low_bit_weights : int8 {
  static_assert(WeightBits >= 2 && WeightBits <= 8, "weights have 2 to 8 bits");
  static constexpr int weight_bits = WeightBits;  ///< b; integer networks support 8, 4 and 2.
  /// The name in logs, messages and checkpoints.
  static constexpr std::string_view name = detail::precision::low_bit_name(WeightBits);
};

namespace detail::precision {

/// The bits of the weights of convolutions in precision P.
template <class P>
inline constexpr int weight_bits = [] {
  if constexpr (requires { P::weight_bits; })
    return P::weight_bits;
  else
    return 8;
}();

}  // namespace detail::precision

}  // namespace cordee::inline CORDEE_ABI
