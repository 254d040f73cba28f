// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The largest of what a block's threads have.
#pragma once

#include <cstddef>

#include <cordee/device/grid.hpp>

namespace cordee::inline CORDEE_ABI::detail {

/// The largest of all threads' x, on every thread; for once in a body, in whose shared memory it
/// has room for that many doubles.
template <int Threads, class Block>
CORDEE_DEVICE double largest_of(Block& b, double x) {
  double* const room = b.template shared<double>(Threads);
  const int t = b.thread();
  room[t] = x;
  for (int half = Threads / 2; half > 0; half /= 2) {
    b.sync();
    if (t < half && room[t + half] > room[t]) room[t] = room[t + half];
  }
  b.sync();
  return room[0];
}

}  // namespace cordee::inline CORDEE_ABI::detail
