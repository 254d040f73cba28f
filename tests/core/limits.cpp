// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <doctest/doctest.h>

#include <cordee/core/limits.hpp>

using cordee::detail::core::limits;

TEST_CASE_TEMPLATE("limits: the largest integer is that of std::numeric_limits", T, char,
                   signed char, unsigned char, short, unsigned short, int, unsigned, long,
                   std::size_t, std::int64_t, std::uint64_t) {
  CHECK(std::is_same_v<decltype(limits<T>::max()), T>);
  CHECK(limits<T>::max() == std::numeric_limits<T>::max());
}

TEST_CASE_TEMPLATE("limits: floating-point limits have the bits of std::numeric_limits", T, float,
                   double) {
  using expected = std::numeric_limits<T>;
  const auto bits = [](T x) {
    return std::bit_cast<std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>(x);
  };
  CHECK(limits<T>::digits == expected::digits);
  CHECK(bits(limits<T>::min()) == bits(expected::min()));
  CHECK(bits(limits<T>::max()) == bits(expected::max()));
  CHECK(bits(limits<T>::infinity()) == bits(expected::infinity()));
  CHECK(bits(limits<T>::quiet_NaN()) == bits(expected::quiet_NaN()));
}
