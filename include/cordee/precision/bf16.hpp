// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// bfloat16: the upper half of a float, as a separate type.
//
//   q = round-to-nearest-even(x) to eight bits of fraction, the leading one included
//
// It has a float's exponent, so neither numbers nor the loss need scaling against overflow and
// underflow.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include <cordee/precision/hardware.hpp>
#include <cordee/precision/number.hpp>
#include <cordee/precision/precision.hpp>

namespace cordee::inline CORDEE_ABI {

/// Sixteen bits: sign, eight of exponent, seven of fraction. Arithmetic is done on exact().
struct bfloat {
  std::uint16_t bits = 0;  ///< The upper half of the float's bits.

  /// Rounds to nearest, ties to even; NaN stays NaN.
  CORDEE_HOST_DEVICE static constexpr bfloat nearest(float x) {
    if constexpr (detail::precision::on_gpu)
      if (!std::is_constant_evaluated()) return {detail::precision::to_bfloat(x)};
    const auto b = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t number = (b + 0x7fffu + (b >> 16 & 1u)) >> 16;
    const std::uint32_t nan =
        b >> 16 | 0x40u;  // quiet, so that a payload in the lower bits alone stays a NaN
    return {static_cast<std::uint16_t>((b & 0x7fffffffu) > 0x7f800000u ? nan : number)};
  }
  /// Converts to float without rounding.
  CORDEE_HOST_DEVICE constexpr float exact() const {
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
  }
};

/// bfloat16 storage with float sums and master weights, in layers and on the wire. Needs no loss
/// scaling.
struct bf16 {
  using storage = bfloat;    ///< Type of activations and encoded messages.
  using master = float;      ///< See Precision.
  using accumulate = float;  ///< See Precision.
  struct scaling {};         ///< Empty: numbers are encoded without a scale.

  static constexpr bool scales_loss = false;        ///< A float's exponents suffice for gradients.
  static constexpr std::string_view name = "bf16";  ///< In logs, messages and checkpoints.

  /// Returns the empty scaling, for any range.
  CORDEE_HOST_DEVICE static constexpr scaling fit(float) { return {}; }
  /// Rounds as `bfloat::nearest`.
  CORDEE_HOST_DEVICE static constexpr bfloat encode(float x, scaling) { return bfloat::nearest(x); }
  /// Converts without rounding.
  CORDEE_HOST_DEVICE static constexpr float decode(bfloat q, scaling) { return q.exact(); }
};
static_assert(Precision<bf16> && detail::precision::StorageOnly<bfloat>);

}  // namespace cordee::inline CORDEE_ABI
