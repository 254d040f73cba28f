// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A comparison with a relative tolerance: CHECK(x == relative(expected, e)) holds if
//
//   |x - expected| <= e |expected|
//
// doctest's Approx(expected).epsilon(e) allows e (1 + |expected|), which for small numbers is an
// absolute tolerance: 1e-4 passes for anything between -0.15 and 0.15 with e = 0.15.
#pragma once

#include <cmath>
#include <ostream>

namespace support {

class relative {
 public:
  relative(double expected, double tolerance) : expected_(expected), tolerance_(tolerance) {}

  friend bool operator==(double actual, const relative& r) {
    return std::abs(actual - r.expected_) <= r.tolerance_ * std::abs(r.expected_);
  }
  friend std::ostream& operator<<(std::ostream& out, const relative& r) {
    return out << r.expected_ << " (1 +- " << r.tolerance_ << ")";
  }

 private:
  double expected_, tolerance_;
};

}  // namespace support
