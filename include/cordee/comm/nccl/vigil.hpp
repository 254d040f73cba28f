// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The moments of one wait: when it began, when it last looked, since when somebody it needs is
// gone.
#pragma once

#include <chrono>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail {

class vigil {
 public:
  using clock = std::chrono::steady_clock;
  using time = clock::time_point;

  static constexpr std::chrono::milliseconds between_looks{100};
  /// What was said before its speaker left may be under way for so long.
  static constexpr std::chrono::milliseconds under_way{1000};

  explicit vigil(time now) : begun_(now), looked_(now) {}

  /// What went before was nobody's fault.
  void begin(time now) { begun_ = now; }
  [[nodiscard]] clock::duration lasts(time now) const { return now - begun_; }

  /// Whether it is time to look again; then that is the last look.
  bool looks(time now) {
    if (now - looked_ <= between_looks) return false;
    looked_ = now;
    return true;
  }
  /// Whether somebody who is gone, as seen now, has been for so long that nothing more will come.
  bool is_in_vain(bool gone, time now) {
    if (gone && gone_ > now) gone_ = now;
    return gone && now - gone_ > under_way;
  }

 private:
  time begun_, looked_, gone_ = time::max();
};

}  // namespace cordee::inline CORDEE_ABI::detail
