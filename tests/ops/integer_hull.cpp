// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/ops/integer_hull.hpp>

using namespace cordee;
using namespace cordee::detail::ops;
using namespace cordee::detail::precision;

namespace {

/// floor((a x + b) / c), c > 0.
struct rounded_line {
  std::int64_t a, b, c;
  std::int64_t operator()(int x) const {
    const std::int64_t n = a * x + b;
    return n / c - (n % c < 0 ? 1 : 0);
  }
};

/// Twice the area of a triangle, positive where b, c turn to the left behind a.
std::int64_t turn(integer_point a, integer_point b, integer_point c) {
  return (b.x - a.x) * (c.y - a.y) - (c.x - a.x) * (b.y - a.y);
}

/// The upper hull of all points of the range (Andrew, 1979).
template <class Function>
std::vector<integer_point> scanned_upper_hull(const Function& function, integer_range in) {
  std::vector<integer_point> out;
  for (int x = in.low; x <= in.high; ++x) {
    const integer_point p{x, function(x)};
    while (out.size() > 1 && turn(out[out.size() - 2], out.back(), p) >= 0) out.pop_back();
    out.push_back(p);
  }
  return out;
}

}  // namespace

TEST_CASE("integer hull: of every line of small numbers, in ranges of 1 to 40 numbers") {
  int compared = 0;
  for (const int size : {1, 2, 3, 5, 8, 13, 40})
    for (const int low : {-40, -3, 0, 7})
      for (std::int64_t c = 1; c <= 13; ++c)
        for (std::int64_t a = -2 * c; a <= 2 * c; ++a)
          for (std::int64_t b = 0; b < c; ++b) {
            const integer_range in{low, low + size - 1};
            const rounded_line floor{a, b, c};
            const auto ceil = [=](int x) { return -rounded_line{-a, -b, c}(x); };
            const auto negative = [=](int x) { return -floor(x); };
            auto lower = scanned_upper_hull(negative, in);
            for (integer_point& p : lower) p.y = -p.y;
            const bool same = upper_hull(floor, in) == scanned_upper_hull(floor, in) &&
                              upper_hull(ceil, in) == scanned_upper_hull(ceil, in) &&
                              lower_hull(floor, in) == lower;
            if (!same)
              FAIL_CHECK(a, " x + ", b, " over ", c, " from ", low, ", ", size, " numbers");
            ++compared;
          }
  CHECK(compared > 20000);
}

TEST_CASE(
    "integer hull: of 18 bits, from less than a hundredth of the points, for flat and steep "
    "lines") {
  random_sequence draw(3, purpose::test, 0, 0);
  const integer_range in{-131072, 131071};
  for (const double slope : {0.0, 1e-9, 1e-4, 0.037, 0.618033988749895, 1.0, 2.7, 316.2, 4000.0})
    for (const double sign : {1.0, -1.0}) {
      const std::int64_t c = std::int64_t{1} << 32;
      const rounded_line line{static_cast<std::int64_t>(sign * slope * static_cast<double>(c)),
                              static_cast<std::int64_t>(draw.bits()), c};
      CAPTURE(line.a);
      int calls = 0;
      const auto counted = [&](int x) {
        ++calls;
        return line(x);
      };
      CHECK(upper_hull(counted, in) == scanned_upper_hull(line, in));
      CHECK(calls < 2500);
    }
}
