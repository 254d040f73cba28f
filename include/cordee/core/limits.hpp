// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The members of std::numeric_limits that every trainer uses. <limits> defines some thirty for each
// of more than twenty types (docs/compile_time.md).
#pragma once

#include <concepts>
#include <type_traits>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::core {

/// Of an integer, of float or of double.
template <class T>
struct limits;

template <std::integral T>
struct limits<T> {
  static constexpr T max() {
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(-1) >>
                          (std::is_signed_v<T> ? 1 : 0));
  }
};

template <>
struct limits<float> {
  static constexpr int digits = __FLT_MANT_DIG__;
  static constexpr float min() { return __FLT_MIN__; }
  static constexpr float max() { return __FLT_MAX__; }
  static constexpr float infinity() { return __builtin_inff(); }
  static constexpr float quiet_NaN() { return __builtin_nanf(""); }
};

template <>
struct limits<double> {
  static constexpr int digits = __DBL_MANT_DIG__;
  static constexpr double min() { return __DBL_MIN__; }
  static constexpr double max() { return __DBL_MAX__; }
  static constexpr double infinity() { return __builtin_inf(); }
  static constexpr double quiet_NaN() { return __builtin_nan(""); }
};

}  // namespace cordee::inline CORDEE_ABI::detail::core
