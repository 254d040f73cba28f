// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The first failure of a run, which is everybody's, and what each rank was waiting for when it
// heard of it: after a stall the ranks point at each other, and together at the one that is to
// blame.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI::detail {

class failure {
 public:
  explicit failure(int ranks) : reports_(static_cast<std::size_t>(ranks)) {}

  /// Only the first counts. `stalled`: somebody waited in vain, and reports tell more.
  bool note(int rank, const std::string& cause, bool stalled = false) {
    const std::scoped_lock lock(mutex_);
    if (happened_) return false;
    culprit_ = rank;
    cause_ = cause;
    stalled_ = stalled;
    happened_ = true;
    return true;
  }
  /// What a rank was at when it heard: "had waited 20 ms for rank 2 to send ...". Each of its
  /// threads may say so.
  void report(int rank, const std::string& words) {
    const std::scoped_lock lock(mutex_);
    std::string& mine = reports_[static_cast<std::size_t>(rank)];
    if (mine.find(words) == std::string::npos) mine += (mine.empty() ? "" : "; ") + words;
  }

  [[nodiscard]] bool happened() const { return happened_; }
  [[nodiscard]] bool stalled() const {
    const std::scoped_lock lock(mutex_);
    return stalled_;
  }
  [[nodiscard]] int culprit() const {
    const std::scoped_lock lock(mutex_);
    return culprit_;
  }
  [[nodiscard]] std::string report(int rank) const {
    const std::scoped_lock lock(mutex_);
    return reports_[static_cast<std::size_t>(rank)];
  }

  /// "rank 2: ..."
  [[nodiscard]] std::string cause() const {
    const std::scoped_lock lock(mutex_);
    return text("rank ", culprit_, ": ", cause_);
  }
  /// And after a stall a line for each rank.
  [[nodiscard]] std::string in_full() const {
    std::string all = cause();
    const std::scoped_lock lock(mutex_);
    for (std::size_t rank = 0; stalled_ && rank < reports_.size(); ++rank)
      all += text("\n  rank ", rank, " ",
                  reports_[rank].empty() ? "told of no exchange" : reports_[rank]);
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> happened_{false};
  bool stalled_ = false;
  int culprit_ = -1;
  std::string cause_;
  std::vector<std::string> reports_;
};

/// One rank's part in a run of processes: what f throws everybody hears of, and what anybody threw
/// is thrown here.
template <class World, class F>
void take_part(World& world, const F& f) {
  try {
    f();
  } catch (const std::exception& e) {
    world.fail(e.what());
  } catch (...) {
    world.fail("threw something that is not a std::exception");
  }
  world.leave();
  if (world.first().happened()) throw error(world.first().in_full());
}

}  // namespace cordee::inline CORDEE_ABI::detail
