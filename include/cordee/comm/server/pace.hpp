// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Who of a parameter server's workers is how far, who waits, and for whom. Whole numbers alone: the
// same arrivals in the same order give the same answers.
//
//   tau = v - v_w          the server's version less that which worker w was last told
//   clock_w                pushes of w; w is answered while clock_w - the slowest clock <= bound
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <cordee/comm/milestone.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {

/// How an asynchronous server takes what it is told.
struct asynchronous {
  static constexpr int unlimited = std::numeric_limits<int>::max();

  /// n of n-softsync (Zhang et al. 2015): floor(ranks / n) pushes make one update, their mean. 1:
  /// as many as there are ranks; from the number of ranks on each push by itself.
  int softsync = unlimited;
  /// A worker that is more steps ahead of the slowest waits (Ho et al. 2013).
  int bound = unlimited;
  /// Each push counts 1 / max(1, staleness) before it is averaged.
  bool staleness_aware = false;
};

namespace detail {

class pace {
 public:
  [[gnu::cold]] pace(int ranks, const asynchronous& how)
      : how_(how), workers_(static_cast<std::size_t>(ranks)) {
    expects(how.softsync >= 1, "server: n of n-softsync is 1 or more");
    expects(how.bound >= 0, "server: a worker may be 0 or more steps ahead of the slowest");
  }

  /// Pushes that make one update.
  [[nodiscard]] int batch() const {
    return std::max(1, static_cast<int>(workers_.size()) / how_.softsync);
  }

  // ---- what comes, in the order in which it comes ----

  /// When all have greeted, all begin at version 0.
  [[gnu::cold]] void greet(int rank) {
    of(rank).state = greeting;
    waiting_.push_back(rank);
    const auto is_greeting = [](const worker& w) { return w.state == greeting; };
    if (!std::all_of(workers_.begin(), workers_.end(), is_greeting)) return;
    for (worker& w : workers_) w = {working};
    version_ = 0;
    gathered_ = 0;
    staleness_.clear();
  }

  /// What a push counts for.
  double push(int rank) {
    worker& w = of(rank);
    const auto tau = static_cast<std::size_t>(version_ - w.seen);
    if (tau >= staleness_.size()) staleness_.resize(tau + 1);
    ++staleness_[tau];
    ++w.clock;
    waiting_.push_back(rank);
    return how_.staleness_aware ? 1 / static_cast<double>(std::max<std::size_t>(1, tau)) : 1;
  }

  /// Counts the push that has just come; whether it makes an update.
  bool updates() {
    if (++gathered_ < batch()) return false;
    gathered_ = 0;
    ++version_;
    return true;
  }

  void leave(int rank) { of(rank).state = away; }

  // ---- what is to be done ----

  /// Who is to be told the weights now, the one that has waited longest first, or -1.
  [[nodiscard]] int answer() {
    const auto may = [&](int rank) { return may_go_on(of(rank)); };
    const auto at = std::find_if(waiting_.begin(), waiting_.end(), may);
    if (at == waiting_.end()) return -1;
    const int rank = *at;
    waiting_.erase(at);
    of(rank).seen = version_;
    return rank;
  }

  /// Whom somebody waits for: those that have not greeted, the slowest, or, when rank 0 has left
  /// and serves on, all that have not.
  [[nodiscard]] std::vector<int> due() const {
    const bool begins = std::any_of(workers_.begin(), workers_.end(),
                                    [](const worker& w) { return w.state == greeting; });
    const bool ends = workers_.front().state == away && !begins;
    std::vector<int> ranks;
    for (std::size_t r = 0; r < workers_.size(); ++r) {
      const worker& w = workers_[r];
      const bool is_due = begins ? w.state != greeting
                          : ends ? w.state == working
                                 : !waiting_.empty() && w.state == working && w.clock == slowest();
      if (is_due) ranks.push_back(static_cast<int>(r));
    }
    return ranks;
  }

  [[nodiscard]] bool over() const {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](const worker& w) { return w.state == away; });
  }

  [[nodiscard]] std::int64_t version() const { return version_; }
  /// Pushes that were k versions old, by k.
  [[nodiscard]] const std::vector<std::int64_t>& staleness() const { return staleness_; }

  /// What each worker has pushed.
  [[nodiscard, gnu::cold]] std::vector<milestone> heard() const {
    std::vector<milestone> all;
    for (std::size_t r = 0; r < workers_.size(); ++r)
      if (const auto clock = workers_[r].clock; clock > 0)
        all.push_back({clock, text("its push ", clock), {static_cast<int>(r)}});
    return all;
  }
  /// "version 7, rank 1, rank 2 ahead and waiting"
  [[nodiscard, gnu::cold]] std::string describe() const {
    std::string ahead;
    for (const int rank : waiting_) ahead += text(", rank ", rank);
    return text("the parameter server, version ", version_, ahead,
                ahead.empty() ? "" : " ahead and waiting");
  }

 private:
  enum stage { away, greeting, working };
  struct worker {
    stage state = away;
    std::int64_t clock = 0, seen = 0;
  };

  [[nodiscard]] worker& of(int rank) { return workers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::int64_t slowest() const {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const worker& w : workers_)
      if (w.state == working) least = std::min(least, w.clock);
    return least;
  }
  [[nodiscard]] bool may_go_on(const worker& w) const {
    return w.state == working && w.clock - slowest() <= how_.bound;
  }

  const asynchronous how_;
  std::vector<worker> workers_;
  std::vector<int> waiting_;  // in the order in which they came
  std::int64_t version_ = 0;
  int gathered_ = 0;
  std::vector<std::int64_t> staleness_;
};

}  // namespace detail

}  // namespace cordee::inline CORDEE_ABI
