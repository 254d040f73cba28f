// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which threads of a team have come to their end.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <vector>

#include <cordee/core/clock.hpp>

namespace cordee::inline CORDEE_ABI::detail {

class roll_call {
 public:
  explicit roll_call(int ranks) : signed_(static_cast<std::size_t>(ranks)) {}

  void sign(int rank) {
    const std::scoped_lock lock(mutex_);
    signed_[static_cast<std::size_t>(rank)] = true;
    changed_.notify_all();
  }

  /// Until all have signed; or one has, and enough() is true then.
  template <class Enough>
  void wait(const Enough& enough) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return all() || enough(); });
  }

  /// Who has not signed after that time; returns as soon as all have.
  [[nodiscard]] std::vector<int> missing(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [&] { return all(); });
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < signed_.size(); ++rank)
      if (!signed_[rank]) ranks.push_back(static_cast<int>(rank));
    return ranks;
  }

 private:
  [[nodiscard]] bool all() const {
    return std::find(signed_.begin(), signed_.end(), false) == signed_.end();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> signed_;
};

}  // namespace cordee::inline CORDEE_ABI::detail
