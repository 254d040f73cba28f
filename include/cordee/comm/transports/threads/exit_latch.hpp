// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which threads of a team have ended.
#pragma once

#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/clock.hpp>
#include <cordee/core/condition.hpp>
#include <cordee/core/mutex.hpp>
#include <cordee/core/pod_vector.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

class exit_latch {
 public:
  explicit exit_latch(int ranks) { ended_.resize(static_cast<std::size_t>(ranks)); }

  void arrive(int rank) {
    const core::scoped_lock lock(mutex_);
    ended_[static_cast<std::size_t>(rank)] = true;
    changed_.notify_all();
  }

  /// Blocks until all ranks have arrived, or stop() is true. It is evaluated when a rank arrives,
  /// and ten times a second, since a rank that fails and does not end notifies nothing here.
  template <class Stop>
  [[gnu::cold]] void wait(const Stop& stop) {
    core::unique_lock lock(mutex_);
    while (!all_ended() && !stop())
      changed_.wait_until(lock, core::steady_nanoseconds() + 100'000'000);
  }

  /// The ranks that have not arrived after `timeout`; returns early if all have.
  [[nodiscard]] std::vector<int> missing_after(std::chrono::milliseconds timeout) {
    return missing_after(timeout, [] { return std::chrono::milliseconds(0); });
  }
  /// The same where the ranks lacked a core for starved() of the time so far, which is not theirs:
  /// they get as much again, up to five times the timeout. It is called twenty times in a timeout,
  /// and when a rank arrives.
  template <class Starved>
  [[nodiscard, gnu::cold]] std::vector<int> missing_after(std::chrono::milliseconds timeout,
                                                          const Starved& starved) {
    using clock = std::chrono::steady_clock;
    const auto start = clock::now();
    const auto interval = std::max(timeout / 20, std::chrono::milliseconds(1));
    std::chrono::milliseconds lost{0};
    core::unique_lock lock(mutex_);
    while (!all_ended() && clock::now() < start + timeout + lost) {
      changed_.wait_until(lock, (clock::now() + interval).time_since_epoch().count());
      lost = std::min<std::chrono::milliseconds>(starved(), 5 * timeout);
    }
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < ended_.size(); ++rank)
      if (!ended_[rank]) ranks.push_back(static_cast<int>(rank));
    return ranks;
  }

 private:
  [[nodiscard]] bool all_ended() const {
    for (const bool ended : ended_)
      if (!ended) return false;
    return true;
  }

  core::mutex mutex_;
  core::condition changed_;
  core::pod_vector<bool> ended_;  // by rank
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
