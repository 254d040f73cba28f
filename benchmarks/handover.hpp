// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The time to transfer a cache line from one worker to another: 30 to 60 ns where two cores share a
// cache, 150 ns and more where they do not. A virtual machine's cores may change between two runs,
// and shared data then costs several times as much, so benchmarks print it.
#pragma once

#include <algorithm>
#include <atomic>
#include <thread>

#include <cordee/device/cpu.hpp>

#include "benchmarks/options.hpp"

namespace bench {

/// Seconds of one transfer between the first two workers, the minimum over a few tries; 0 where
/// there is one worker.
inline double handover(cordee::cpu::stream s) {
  constexpr int transfers = 20'000, tries = 5;
  if (cordee::detail::device::workers_of(s) < 2) return 0;
  double least = 1e9;
  for (int k = 0; k < tries; ++k) {
    std::atomic<int> line{0};
    const double before = now();
    s.workers->run([&](int worker) {
      if (worker > 1) return;
      for (int i = worker; i < transfers; i += 2) {
        for (int polls = 0; line.load(std::memory_order_acquire) != i;)
          if (++polls > 10'000) std::this_thread::yield();  // the other thread has no core
        line.store(i + 1, std::memory_order_release);
      }
    });
    least = std::min(least, (now() - before) / transfers);
  }
  return least;
}

}  // namespace bench
