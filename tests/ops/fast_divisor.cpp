// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <initializer_list>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/ops/fast_divisor.hpp>

using namespace cordee;

TEST_CASE("fast_divisor: the quotient is that of integer division, around every multiple") {
  constexpr int largest = std::numeric_limits<int>::max();
  std::size_t wrong = 0;
  const auto check = [&](int d) {
    const detail::ops::fast_divisor by(d);
    const auto count = [&](std::int64_t n) {
      if (n >= 0 && n <= largest && by.quotient(static_cast<int>(n)) != n / d) ++wrong;
    };
    for (const std::int64_t k : {0, 1, 2, 3, 1000, largest / d - 1, largest / d})
      for (int near = -1; near <= 1; ++near) count(k * d + near);
    for (std::int64_t n = 0; n < 300; ++n) count(n);
    for (std::int64_t n = 1; n < largest; n = n * 17 / 11 + 1) count(n);
    count(largest);
  };
  for (int d = 1; d < 3000; ++d) check(d);
  for (int bit = 12; bit < 31; ++bit)
    for (int near = -1; near <= 1; ++near) check((1 << bit) + near);
  check(largest);
  CHECK(wrong == 0);
}

TEST_CASE("fast_wide_divisor: the quotient is that of integer division, of numerators of 62 bits") {
  std::size_t wrong = 0;
  const auto check = [&](int d) {
    const detail::ops::fast_wide_divisor by(d);
    const std::uint64_t divisor = by.divisor, end = divisor << 31;
    const auto count = [&](std::uint64_t n) {
      if (n >= end) return;
      if (by.quotient(n) != static_cast<std::int64_t>(n / divisor)) ++wrong;
      if (by.divides(n) != (n % divisor == 0)) ++wrong;
    };
    constexpr std::uint64_t last = (std::uint64_t{1} << 31) - 1;
    for (const std::uint64_t k : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2},
                                  std::uint64_t{1000003}, last / 3, last - 1, last})
      for (const std::uint64_t off : {std::uint64_t{0}, std::uint64_t{1}, divisor / 2, divisor - 1})
        count(k * divisor + off);
    for (std::uint64_t n = 0; n < 300; ++n) count(n);
    for (std::uint64_t n = 1; n < end; n += n / 2 + 1) count(n);
  };
  for (int d = 1; d < 3000; ++d) check(d);
  for (int bit = 12; bit < 31; ++bit)
    for (int near = -1; near <= 1; ++near) check((1 << bit) + near);
  check(std::numeric_limits<int>::max());
  CHECK(wrong == 0);
}
