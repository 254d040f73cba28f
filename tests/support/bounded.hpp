// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Running error analysis (Higham, Accuracy and Stability of Numerical Algorithms, 2002, 3.3): a
// number in double with a bound of the error of one that is computed from 16-bit numbers in float.
#pragma once

#include <algorithm>
#include <cmath>

namespace support {

/// A number, and by how much a computed one may differ from it.
struct bounded {
  double value = 0, bound = 0;

  static constexpr double half = 0x1p-11, tiny = 0x1p-25;  // of fp16: relative, and of subnormals
  static constexpr double single = 0x1p-23;                // tensor cores truncate their sums

  friend bounded operator+(bounded a, bounded b) { return {a.value + b.value, a.bound + b.bound}; }
  friend bounded operator*(bounded a, bounded b) {
    return {a.value * b.value,
            std::abs(a.value) * b.bound + std::abs(b.value) * a.bound + a.bound * b.bound};
  }
  [[nodiscard]] bounded rounded() const {
    return {value, bound + half * (std::abs(value) + bound) + tiny};
  }
  [[nodiscard]] bounded relu() const { return {std::max(value, 0.0), bound}; }
  /// Whether it is close to `computed`; NaN is not.
  [[nodiscard]] bool admits(double computed) const { return std::abs(computed - value) <= bound; }
};

/// A sum in float of products, in any order.
class bounded_sum {
 public:
  void add(bounded a) {
    total_ = total_ + a;
    magnitude_ += std::abs(a.value) + a.bound;
    ++terms_;
  }
  [[nodiscard]] bounded get() const {
    return {total_.value, total_.bound + (terms_ + 1) * bounded::single * magnitude_};
  }

 private:
  bounded total_;
  double magnitude_ = 0, terms_ = 0;
};

}  // namespace support
