// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One rate for the whole run.
#pragma once

#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

struct constant {
  double rate = 0.1;

  constexpr double operator()(double) const { return rate; }
  [[nodiscard]] std::string describe() const { return text("constant ", rate); }
};

}  // namespace cordee::inline CORDEE_ABI
