// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Half precision in storage and on the wire: IEEE 754 binary16, as a separate type.
//
//   q = round-to-nearest-even(x s),  x' = q / s,  s = 2^(14 - floor(log2 max|x|))
//
// Powers of two scale without rounding and leave one bit of headroom below 65504. So the largest
// numbers of a range do not overflow, and numbers down to 2^-28 of the largest keep all eleven
// bits. Conversions are branch-free integer arithmetic, which compilers vectorize for any
// processor; on a GPU they are instructions.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include <cordee/precision/hardware.hpp>
#include <cordee/precision/precision.hpp>

namespace cordee::inline CORDEE_ABI {

/// Sixteen bits: sign, five of exponent, ten of fraction. Arithmetic is done on exact().
struct half {
  std::uint16_t bits = 0;  ///< The bits of binary16, sign first.

  /// Rounds to nearest, ties to even; infinite from 65520 on; NaN stays NaN.
  CORDEE_HOST_DEVICE static constexpr half nearest(float x) {
    if constexpr (detail::precision::on_gpu)
      if (!std::is_constant_evaluated()) return {detail::precision::to_half(x)};
    const auto b = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t a = b & 0x7fffffffu;
    // Normal halves: round at bit 13, carry into the exponent, and move its bias from 127 to 15.
    const std::uint32_t normal = (a + 0xfffu + (a >> 13 & 1u) - 0x38000000u) >> 13;
    // Below 2^-14 the unit is 2^-24, which is the unit of floats at 0.5: their addition rounds.
    const float tiny = std::bit_cast<float>(a < 0x38800000u ? a : 0u) + 0.5f;
    const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(tiny) - 0x3f000000u;
    // A NaN whose payload is zero in the upper ten bits must not become an infinity.
    const std::uint32_t payload = a >> 13 & 0x3ffu;
    const std::uint32_t nan = 0x7c00u | payload | (payload == 0 ? 0x200u : 0u);
    const std::uint32_t finite = a < 0x38800000u ? subnormal : normal;
    const std::uint32_t number = a >= 0x477ff000u ? 0x7c00u : finite;
    const std::uint32_t magnitude = a > 0x7f800000u ? nan : number;
    return {static_cast<std::uint16_t>((b >> 16 & 0x8000u) | magnitude)};
  }

  /// Converts to float without rounding.
  CORDEE_HOST_DEVICE constexpr float exact() const {
    if constexpr (detail::precision::on_gpu)
      if (!std::is_constant_evaluated()) return detail::precision::from_half(bits);
    const std::uint32_t sign = (bits & 0x8000u) << 16, a = bits & 0x7fffu;
    const std::uint32_t normal = (a << 13) + 0x38000000u;
    const std::uint32_t unbounded = normal + 0x38000000u;  // infinities and NaN
    // The fraction after the leading one of 2^-14, less that one.
    const float tiny = std::bit_cast<float>(0x38800000u + (a << 13 & 0x7fffffu)) -
                       std::bit_cast<float>(0x38800000u);
    const std::uint32_t bounded = a < 0x400u ? std::bit_cast<std::uint32_t>(tiny) : normal;
    return std::bit_cast<float>(sign | (a >= 0x7c00u ? unbounded : bounded));
  }
};

/// binary16 storage with float sums and master weights: on the wire with a scale for each range of
/// numbers, in layers without one, hence with loss scaling.
struct fp16 {
  using storage = half;      ///< Type of activations and encoded messages.
  using master = float;      ///< See Precision.
  using accumulate = float;  ///< See Precision.
  /// Scale of one range of numbers on the wire.
  struct scaling {
    float scale = 1;  ///< s: a power of two, or NaN for a range that is not finite.
  };

  static constexpr bool scales_loss = true;         ///< Gradients below 2^-25 would round to zero.
  static constexpr std::string_view name = "fp16";  ///< In logs, messages and checkpoints.

  /// Scaling for numbers up to |x|. If x is not finite, every encoded number decodes to NaN.
  CORDEE_HOST_DEVICE static constexpr scaling fit(float x) {
    const std::uint32_t a = std::bit_cast<std::uint32_t>(x) & 0x7fffffffu;
    if (a >= 0x7f800000u) return {std::bit_cast<float>(0x7fc00000u)};
    if (a == 0) return {};
    const std::uint32_t exponent = 14u + 254u - (a >> 23);
    return {std::bit_cast<float>((exponent < 253u ? exponent : 253u) << 23)};  // 1 / scale: normal
  }
  /// Rounds x s; infinity from 65520 on.
  CORDEE_HOST_DEVICE static constexpr half encode(float x, scaling k) {
    return half::nearest(x * k.scale);
  }
  /// Multiplies by 1 / s: exact except for subnormal floats.
  CORDEE_HOST_DEVICE static constexpr float decode(half q, scaling k) {
    return q.exact() * (1.0f / k.scale);
  }
};
static_assert(Precision<fp16>);

}  // namespace cordee::inline CORDEE_ABI
