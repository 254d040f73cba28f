// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The first failure of a run, which is everybody's, and what each rank was waiting for when it
// heard of it: after a stall the ranks point at each other, and together at the one that is to
// blame, which waited for nobody, or came last.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include <cordee/comm/errand.hpp>
#include <cordee/core/clock.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI::detail {

/// Once a rank has failed, how long the others may take to end.
constexpr std::chrono::milliseconds grace(std::chrono::milliseconds deadline) {
  return std::min(deadline, std::chrono::milliseconds(10'000));
}

class failure {
 public:
  using ms = std::chrono::milliseconds;
  static constexpr ms never{-1};

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
  /// The same where it happens. A stall is told there at once: until all have ended takes a while,
  /// in which this process may be killed.
  [[gnu::cold]] bool arise(int rank, const std::string& why, bool stalled) {
    const bool mine = note(rank, why, stalled);
    if (mine && stalled) std::fprintf(stderr, "cordee: %s\n", cause().c_str());
    return mine;
  }

  /// What a rank was at when it heard: "had waited 20 ms for rank 2 to send ...", the time once
  /// more unless it is that thread's trade to wait, and what every rank has had part in. Each of
  /// its threads may say so.
  [[gnu::cold]] void report(int rank, const std::string& words, ms waited = never,
                            const milestone& done = {}) {
    const std::scoped_lock lock(mutex_);
    account& mine = reports_[static_cast<std::size_t>(rank)];
    if (mine.words.find(words) == std::string::npos)
      mine.words += (mine.words.empty() ? "" : "; ") + words;
    mine.waited = std::max(mine.waited, waited);
    if (mine.done.count < done.count) mine.done = done;
  }
  /// All that a rank has reported, for another process, which `hear`s it.
  [[nodiscard, gnu::cold]] std::string farewell(int rank) const {
    const std::scoped_lock lock(mutex_);
    const auto& [words, waited, done] = reports_[static_cast<std::size_t>(rank)];
    return text(waited.count(), ' ', done.count, ' ', done.ranks, ' ', done.name, '\n', words);
  }
  [[gnu::cold]] void hear(int rank, const std::string& farewell) {
    const auto end = farewell.find('\n');
    if (end == std::string::npos) return;
    char* at = nullptr;
    const ms waited{std::strtoll(farewell.c_str(), &at, 10)};
    milestone done{std::strtoll(at, &at, 10), static_cast<int>(std::strtol(at, &at, 10))};
    const auto name = static_cast<std::size_t>(at - farewell.c_str()) + 1;
    done.name = farewell.substr(name, end - name);
    report(rank, farewell.substr(end + 1), waited, done);
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
    return reports_[static_cast<std::size_t>(rank)].words;
  }

  /// "rank 2: ..."
  [[nodiscard]] std::string cause() const {
    const std::scoped_lock lock(mutex_);
    return text("rank ", culprit_, ": ", cause_);
  }
  /// And after a stall a line for each rank, and whom they point at.
  [[nodiscard, gnu::cold]] std::string in_full() const {
    std::string all = cause();
    const std::scoped_lock lock(mutex_);
    if (!stalled_) return all;
    const std::string silent = "told of no exchange" + taken_part();
    for (std::size_t rank = 0; rank < reports_.size(); ++rank)
      all += text("\n  rank ", rank, " ",
                  reports_[rank].words.empty() ? silent : reports_[rank].words);
    return all + "\n  look first at " + suspects();
  }

 private:
  struct account {
    std::string words;
    ms waited = never;
    milestone done;
  };

  // Who is silent has had part in what another rank has finished, if that takes every rank.
  [[nodiscard]] std::string taken_part() const {
    std::size_t who = 0;
    milestone last;
    for (std::size_t rank = 0; rank < reports_.size(); ++rank)
      if (const milestone& done = reports_[rank].done;
          done.count > last.count && done.ranks == static_cast<int>(reports_.size())) {
        last = done;
        who = rank;
      }
    return last.count == 0
               ? ""
               : text("; took part up to ", last.name, ", which rank ", who, " has finished");
  }
  // Every rank of a chain waits for the next one, and longer: the last one waits for nobody.
  [[nodiscard]] std::string suspects() const {
    std::string idle;
    std::size_t least = 0;
    for (std::size_t rank = 0; rank < reports_.size(); ++rank) {
      if (reports_[rank].waited == never) idle += text(idle.empty() ? "rank " : ", rank ", rank);
      if (reports_[rank].waited < reports_[least].waited) least = rank;
    }
    return idle.empty() ? text("rank ", least, ": it had waited least")
                        : idle + ": no word of a wait from there";
  }

  mutable std::mutex mutex_;
  std::atomic<bool> happened_{false};
  bool stalled_ = false;
  int culprit_ = -1;
  std::string cause_;
  std::vector<account> reports_;
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
