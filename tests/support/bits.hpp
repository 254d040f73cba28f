// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Shared by the tests of the trainer: a learning rate, centres by rank, copies of planes.
#pragma once

#include <algorithm>
#include <vector>

#include <cordee/device/cpu.hpp>
#include <cordee/testing/same_bits.hpp>

namespace support {

using namespace cordee;

inline constexpr auto slow_start = [](double epoch) {
  return 0.02 * std::min(1.0, (epoch + 1) / 20);
};

/// The distance of this rank's centres from the mean over ranks.
inline double spread(int rank, int ranks) { return 0.3 * (rank - 0.5 * (ranks - 1)); }

template <class Real>
std::vector<Real> copy(span_on<Real, cpu> plane) {
  return {plane.begin(), plane.end()};
}

}  // namespace support
