// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the trainer share: a rate, centres by rank, and planes compared to the bit.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include <cordee/device/cpu.hpp>

namespace support {

using namespace cordee;

inline constexpr auto slow_start = [](double epoch) {
  return 0.02 * std::min(1.0, (epoch + 1) / 20);
};

/// What this rank's centres are away from the mean of all ranks' centres.
inline double spread(int rank, int ranks) { return 0.3 * (rank - 0.5 * (ranks - 1)); }

template <class Real>
std::vector<Real> copy(span_on<Real, cpu> plane) {
  return {plane.begin(), plane.end()};
}
template <class Real>
bool same_bits(const std::vector<Real>& a, const std::vector<Real>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Real)) == 0;
}

}  // namespace support
