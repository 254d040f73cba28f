// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A rate that falls by a factor at each milestone.
//
//   rate(e) = rate * factor^#{ milestones <= e }
//
// He et al. 2015 and Goyal et al. 2017: a tenth at epochs 30, 60 and 80 of 90.
#pragma once

#include <array>

#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

/// The epoch of a milestone itself already uses the lower rate. Milestones are positive and in any
/// order; zeros are unused places, so that {30, 60, 80} needs no count and the schedule stays a
/// plain value (a milestone at 0 could only have meant another rate).
struct multistep {
  double rate = 0.1;
  std::array<double, 8> milestones{};
  double factor = 0.1;

  constexpr double operator()(double epoch) const {
    double now = rate;
    for (const double m : milestones)
      if (m > 0 && m <= epoch) now *= factor;
    return now;
  }
  [[nodiscard]] std::string describe() const {
    std::string places;
    for (const double m : milestones)
      if (m > 0) places += text(places.empty() ? "" : ", ", m);
    return places.empty() ? text("constant ", rate)
                          : text(rate, ", times ", factor, " at epochs ", places);
  }
};

}  // namespace cordee::inline CORDEE_ABI
