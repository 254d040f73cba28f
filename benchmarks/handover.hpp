// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How long a cache line takes from one worker to another: 30 to 60 ns where two cores share a
// cache, 150 and more where they do not, and a virtual machine's may move from one to the other
// between two runs. What then crosses is many times dearer, so figures say which of the two it was.
#pragma once

#include <algorithm>
#include <atomic>
#include <thread>

#include <cordee/device/cpu.hpp>

#include "benchmarks/options.hpp"

namespace bench {

/// Seconds for one way between the first two workers, the shortest of a few tries; 0 where there is
/// one.
inline double handover(cordee::cpu::stream s) {
  constexpr int ways = 20'000, tries = 5;
  if (workers_of(s) < 2) return 0;
  double least = 1e9;
  for (int k = 0; k < tries; ++k) {
    std::atomic<int> ball{0};
    const double before = now();
    s.workers->run([&](int worker) {
      if (worker > 1) return;
      for (int way = worker; way < ways; way += 2) {
        for (int looks = 0; ball.load(std::memory_order_acquire) != way;)
          if (++looks > 10'000) std::this_thread::yield();  // the other has no core
        ball.store(way + 1, std::memory_order_release);
      }
    });
    least = std::min(least, (now() - before) / ways);
  }
  return least;
}

}  // namespace bench
