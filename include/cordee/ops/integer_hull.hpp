// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The convex hull of the integer points (x, T(x)) of a line that is rounded, T(x) = floor(k x + b)
// or ceil(k x + b) for reals k and b. A linear function has its extremes at vertices of the hull,
// which are O(log n) of n points; T is called O(log^2 n) times for each.
//
// From a vertex the hull's upper edge has the steepest direction that leads to a point on or below
// the line, by bisection in the Stern-Brocot tree (Harvey, 1999, "Computing two-dimensional integer
// hulls"). Runs of equal turns in the tree are found by doubling and bisection.
#pragma once

#include <concepts>
#include <cstdint>
#include <vector>

#include <cordee/core/config.hpp>
#include <cordee/ops/quantize.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

struct integer_point {
  int x = 0;
  std::int64_t y = 0;

  friend constexpr integer_point operator+(integer_point a, integer_point b) {
    return {a.x + b.x, a.y + b.y};
  }
  friend constexpr integer_point operator*(int n, integer_point a) { return {n * a.x, n * a.y}; }
  friend constexpr bool operator==(const integer_point&, const integer_point&) = default;
};

/// The largest n <= most for which `holds`. Requires that it holds for 1, and for all below one for
/// which it holds.
template <std::predicate<int> Predicate>
int largest_that(int most, const Predicate& holds) {
  int n = 1, step = 1;
  const auto advance = [&] {
    const bool is_larger = step <= most - n && holds(n + step);
    if (is_larger) n += step;
    return is_larger;
  };
  while (advance()) step *= 2;
  while (step > 1) {
    step /= 2;
    advance();
  }
  return n;
}

/// The vertices of the upper hull of (x, T(x)), `in.low` <= x <= `in.high`, from left to right.
template <std::invocable<int> Function>
std::vector<integer_point> upper_hull(const Function& function, integer_range in) {
  integer_point at{in.low, function(in.low)};
  std::vector<integer_point> vertices{at};
  while (at.x < in.high) {
    const int width = in.high - at.x;
    const auto is_below = [&](integer_point direction) {
      const integer_point p = at + direction;
      return p.y <= function(p.x);
    };
    // A direction v leads to such a point where v.y - k v.x is at most how far the line is above
    // `at`; of `outside` it is more, so adding `outside` leads above the line, once, for good.
    // Among the directions that lead below it, none with v.x <= width is steeper than the final
    // `inside`.
    integer_point inside{1, function(at.x + 1) - at.y}, outside = inside + integer_point{0, 1};
    while (inside.x + outside.x <= width) {
      if (is_below(inside + outside)) {
        const int n = largest_that((width - inside.x) / outside.x,
                                   [&](int m) { return is_below(inside + m * outside); });
        inside = inside + n * outside;
      } else {
        const int n = largest_that((width - outside.x) / inside.x,
                                   [&](int m) { return !is_below(outside + m * inside); });
        outside = outside + n * inside;
      }
    }
    at = at + largest_that(width / inside.x, [&](int m) { return is_below(m * inside); }) * inside;
    vertices.push_back(at);
  }
  return vertices;
}
/// The same of the lower hull.
template <std::invocable<int> Function>
std::vector<integer_point> lower_hull(const Function& function, integer_range in) {
  auto vertices = upper_hull([&](int x) { return -function(x); }, in);
  for (integer_point& p : vertices) p.y = -p.y;
  return vertices;
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
