// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Comparisons that stay relative for small numbers: doctest's Approx(y).epsilon(e) accepts
// |x - y| < e (1 + max(|x|, |y|)), which for |y| << 1 is e, whatever y is.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace support {

/// |x - y| <= tolerance |y|
inline bool relatively_close(double x, double y, double tolerance) {
  return std::abs(x - y) <= tolerance * std::abs(y);
}

/// |x - expected| / |expected - start|: the error of a result as part of the way from the start to
/// it. 1 for a result that is still at the start; infinite if sizes differ, a number is NaN or
/// nothing was to move.
template <class Real>
double way_error(const std::vector<Real>& x, const std::vector<Real>& expected,
                 const std::vector<Real>& start) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (x.size() != expected.size() || start.size() != expected.size()) return infinity;
  double error = 0, way = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error += std::pow(static_cast<double>(x[i]) - static_cast<double>(expected[i]), 2);
    way += std::pow(static_cast<double>(expected[i]) - static_cast<double>(start[i]), 2);
  }
  return std::isfinite(error) && way > 0 ? std::sqrt(error / way) : infinity;
}

}  // namespace support
