// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The maximum over a thread block.
#pragma once

#include <cstddef>

#include <cordee/device/gpu_kernel.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The maximum of all threads' x, on every thread. Collective, at most once per kernel; takes
/// `Threads` doubles of shared memory.
template <int Threads, class Block>
CORDEE_DEVICE double block_max(Block& b, double x) {
  double* const values = b.template shared<double>(Threads);
  const int t = b.thread();
  values[t] = x;
  for (int half = Threads / 2; half > 0; half /= 2) {
    b.sync();
    if (t < half && values[t + half] > values[t]) values[t] = values[t + half];
  }
  b.sync();
  return values[0];
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
