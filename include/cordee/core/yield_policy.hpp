// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Whether a thread that waits yields its core. Where threads compete for cores, Linux gives away a
// whole time slice with one yield, some 4 ms: after such a yield waits block, until it is tried
// again.
#pragma once

#include <cstdint>

#include <cordee/core/config.hpp>
#include <cordee/core/steady_time.hpp>
#include <cordee/core/thread.hpp>

namespace cordee::inline CORDEE_ABI::detail::core {

/// The yield policy of one thread.
class yield_policy {
 public:
  /// `blocked_waits` - 1 waits block after a slow yield. Range: 1 or more.
  explicit constexpr yield_policy(int blocked_waits) : blocked_waits_(blocked_waits) {}

  /// Yields. Returns false without it where this wait should block.
  bool yield() {
    if (!yields()) return false;
    const std::int64_t start = steady_nanoseconds();
    core::yield();
    note(steady_nanoseconds() - start);
    return true;
  }
  /// Whether yield() would yield; counts the wait.
  [[nodiscard]] bool yields() { return blocks_ == 0 || --blocks_ == 0; }
  /// Records how long a yield took, in nanoseconds.
  void note(std::int64_t took) {
    if (took > slow) blocks_ = blocked_waits_;
  }

 private:
  static constexpr std::int64_t slow = 500'000;

  int blocked_waits_;
  int blocks_ = 0;
};

}  // namespace cordee::inline CORDEE_ABI::detail::core
