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
  /// more unless it is that thread's trade to wait, and what other ranks have had part in, as it
  /// knows. Each of its threads may say so.
  [[gnu::cold]] void report(int rank, const std::string& words, ms waited = never,
                            const std::vector<milestone>& done = {}) {
    const std::scoped_lock lock(mutex_);
    account& mine = reports_[static_cast<std::size_t>(rank)];
    if (mine.words.find(words) == std::string::npos)
      mine.words += (mine.words.empty() ? "" : "; ") + words;
    mine.waited = std::max(mine.waited, waited);
    for (const milestone& m : done) mine.join(m);
  }
  /// All that a rank has reported, for another process, which `hear`s it.
  [[nodiscard, gnu::cold]] std::string farewell(int rank) const {
    const std::scoped_lock lock(mutex_);
    const auto& [words, waited, done] = reports_[static_cast<std::size_t>(rank)];
    std::string all = text(waited.count(), ' ', words.size(), '\n', words);
    for (const milestone& m : done) all += m.line() + '\n';
    return all;
  }
  /// The last milestones may be cut off: notices are short.
  [[gnu::cold]] void hear(int rank, const std::string& farewell) {
    char* at = nullptr;
    const ms waited{std::strtoll(farewell.c_str(), &at, 10)};
    const std::size_t size = std::strtoull(at, &at, 10);
    if (*at != '\n') return;
    const auto words = static_cast<std::size_t>(at - farewell.c_str()) + 1;
    std::vector<milestone> done;
    for (std::size_t here = words + size, end;
         (end = farewell.find('\n', here)) != std::string::npos; here = end + 1)
      done.push_back(milestone::of(farewell.substr(here, end - here)));
    report(rank, farewell.substr(words, size), waited, done);
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
    for (std::size_t rank = 0; rank < reports_.size(); ++rank)
      all += text("\n  rank ", rank, " ",
                  reports_[rank].words.empty()
                      ? "told of no exchange" + taken_part(static_cast<int>(rank))
                      : reports_[rank].words);
    return all + "\n  look first at " + suspects();
  }

 private:
  struct account {
    std::string words;
    ms waited = never;
    std::vector<milestone> done;

    void join(const milestone& m) {
      for (milestone& mine : done)
        if (mine.count == m.count && mine.name == m.name)
          return void(mine.ranks.insert(mine.ranks.end(), m.ranks.begin(), m.ranks.end()));
      done.push_back(m);
    }
  };

  // Who is silent has had part in what another rank has finished with it.
  [[nodiscard]] std::string taken_part(int silent) const {
    std::size_t who = 0;
    const milestone* last = nullptr;
    for (std::size_t rank = 0; rank < reports_.size(); ++rank)
      for (const milestone& m : reports_[rank].done)
        if (m.includes(silent) && (last == nullptr || m.count > last->count)) {
          last = &m;
          who = rank;
        }
    return last == nullptr
               ? ""
               : text("; took part up to ", last->name, ", which rank ", who, " has finished");
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
