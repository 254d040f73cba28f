// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A 64-bit integer that throws where a floating-point number is made of it, or it of one. It
// converts to no integers but those that layers store, of 8 and 32 bits. A float that is made of
// such an integer is not seen here: infer.machine_code finds its instructions.
#pragma once

#include <concepts>
#include <cstdint>
#include <stdexcept>

namespace support {

struct found_a_float : std::logic_error {
  found_a_float() : std::logic_error("floating-point arithmetic in an integer network") {}
};

struct refuses_floats {
  std::int64_t value = 0;

  constexpr refuses_floats() = default;
  template <std::integral T>
  constexpr explicit refuses_floats(T x) : value(static_cast<std::int64_t>(x)) {}
  template <std::floating_point T>
  explicit refuses_floats(T) {
    throw found_a_float();
  }
  template <class T>
    requires std::same_as<T, std::uint8_t> || std::same_as<T, std::int32_t>
  constexpr explicit operator T() const {
    return static_cast<T>(value);
  }
  template <std::floating_point T>
  explicit operator T() const {
    throw found_a_float();
  }

  friend constexpr refuses_floats operator+(refuses_floats a, refuses_floats b) {
    return refuses_floats{a.value + b.value};
  }
  friend constexpr refuses_floats operator-(refuses_floats a, refuses_floats b) {
    return refuses_floats{a.value - b.value};
  }
  friend constexpr refuses_floats operator*(refuses_floats a, refuses_floats b) {
    return refuses_floats{a.value * b.value};
  }
  friend constexpr refuses_floats operator/(refuses_floats a, refuses_floats b) {
    return refuses_floats{a.value / b.value};
  }
  friend constexpr refuses_floats operator<<(refuses_floats a, int n) {
    return refuses_floats{a.value << n};
  }
  friend constexpr refuses_floats operator>>(refuses_floats a, int n) {
    return refuses_floats{a.value >> n};
  }
  friend constexpr auto operator<=>(refuses_floats, refuses_floats) = default;
};

}  // namespace support
