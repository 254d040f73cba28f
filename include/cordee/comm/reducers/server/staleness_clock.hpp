// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The progress of a parameter server's workers: staleness of pushes, and which workers wait for
// which. Integers only: the same arrivals in the same order have the same outcome.
//
//   tau = v - v_w     the server's version minus the one that worker w last received
//   clock_w           pushes of w; w receives a reply while clock_w - min clock <= staleness_bound
//
// While w makes one step, each other worker pushes at most 2 staleness_bound + 1 times: from
// clock_w - staleness_bound to clock_w + staleness_bound + 1. If each push is an update, therefore,
// tau <= (p - 1) (2 staleness_bound + 1), the SSP bound of Ho et al. 2013.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <cordee/comm/failure/completed_op.hpp>
#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI {

/// Options of an asynchronous server.
struct asynchronous {
  /// No limit; for softsync, each push is an update.
  static constexpr int unlimited = std::numeric_limits<int>::max();

  /// n of n-softsync (Zhang et al. 2015): an update averages floor(ranks / n) pushes, or one push
  /// if n exceeds the number of ranks. Range: 1 or more, else usage_error.
  int softsync = unlimited;
  /// Steps that a rank may be ahead of the slowest before it waits (Ho et al. 2013). Unit: steps.
  /// Range: 0 or more, else usage_error.
  int staleness_bound = unlimited;
  /// Whether a push is multiplied by 1 / max(1, its staleness) before it is averaged.
  bool staleness_aware = false;
};

namespace detail::comm {

class staleness_clock {
 public:
  [[gnu::cold]] staleness_clock(int ranks, const asynchronous& options)
      : options_(options), workers_(static_cast<std::size_t>(ranks)) {
    expects(options.softsync >= 1, "server: asynchronous::softsync must be 1 or more");
    expects(options.staleness_bound >= 0,
            "server: asynchronous::staleness_bound must be 0 or more");
  }

  /// Pushes that one update averages.
  [[nodiscard]] int batch() const {
    return std::max(1, static_cast<int>(workers_.size()) / options_.softsync);
  }

  // ---- requests, in the order of their arrival ----

  /// When all ranks have joined, all begin at version 0.
  [[gnu::cold]] void join(int rank) {
    of(rank).state = joined;
    waiting_.push_back(rank);
    const auto has_joined = [](const worker& w) { return w.state == joined; };
    if (!std::all_of(workers_.begin(), workers_.end(), has_joined)) return;
    for (worker& w : workers_) w = {working};
    version_ = 0;
    pushes_ = 0;
    staleness_.clear();
  }

  /// Returns the factor of a push of this rank.
  double push(int rank) {
    worker& w = of(rank);
    const auto tau = static_cast<std::size_t>(version_ - w.received);
    if (tau >= staleness_.size()) staleness_.resize(tau + 1);
    ++staleness_[tau];
    ++w.clock;
    waiting_.push_back(rank);
    return options_.staleness_aware ? 1 / static_cast<double>(std::max<std::size_t>(1, tau)) : 1;
  }

  /// Effects: counts a push. Returns whether it completes an update.
  bool completes_update() {
    if (++pushes_ < batch()) return false;
    pushes_ = 0;
    ++version_;
    return true;
  }

  void leave(int rank) { of(rank).state = left; }

  // ---- replies ----

  /// Returns a rank that is to receive the weights now, of several the one that has waited longest,
  /// or -1. Effects: it waits no longer.
  [[nodiscard]] int pop_ready() {
    const auto is_ready = [&](int rank) { return may_continue(of(rank)); };
    const auto first = std::find_if(waiting_.begin(), waiting_.end(), is_ready);
    if (first == waiting_.end()) return -1;
    const int rank = *first;
    waiting_.erase(first);
    of(rank).received = version_;
    return rank;
  }

  /// The ranks that others wait for: those that have not joined, the slowest, or, when rank 0 has
  /// left and still serves, all that have not left.
  [[nodiscard]] std::vector<int> due() const {
    const bool joining = std::any_of(workers_.begin(), workers_.end(),
                                     [](const worker& w) { return w.state == joined; });
    const bool leaving = workers_.front().state == left && !joining;
    std::vector<int> ranks;
    for (std::size_t r = 0; r < workers_.size(); ++r) {
      const worker& w = workers_[r];
      const bool is_due = joining ? w.state != joined
                          : leaving
                              ? w.state == working
                              : !waiting_.empty() && w.state == working && w.clock == slowest();
      if (is_due) ranks.push_back(static_cast<int>(r));
    }
    return ranks;
  }

  [[nodiscard]] bool all_left() const {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](const worker& w) { return w.state == left; });
  }

  [[nodiscard]] std::int64_t version() const { return version_; }
  /// Element k: the number of pushes that were k versions old.
  [[nodiscard]] const std::vector<std::int64_t>& staleness() const { return staleness_; }

  /// Version, pushes of the next update, then each worker's clock and received version, then the
  /// staleness. Requires that all ranks work and none waits.
  [[nodiscard, gnu::cold]] std::vector<std::int64_t> counters() const {
    std::vector<std::int64_t> all{version_, pushes_};
    for (const worker& w : workers_) all.insert(all.end(), {w.clock, w.received});
    all.insert(all.end(), staleness_.begin(), staleness_.end());
    return all;
  }
  /// Continues where `counters` were taken, under the same requirement. Throws error for counters
  /// of another number of ranks.
  [[gnu::cold]] void restore(std::span<const std::int64_t> counters) {
    const std::size_t staleness = 2 + 2 * workers_.size();
    if (counters.size() < staleness)
      throw error(concat("server: ", counters.size(), " counters are too few for ", workers_.size(),
                         " ranks: continue with as many ranks as before"));
    version_ = counters[0];
    pushes_ = static_cast<int>(counters[1]);
    for (std::size_t r = 0; r < workers_.size(); ++r)
      workers_[r] = {working, counters[2 + 2 * r], counters[3 + 2 * r]};
    staleness_.assign(counters.begin() + static_cast<std::ptrdiff_t>(staleness), counters.end());
  }

  /// The last push of each worker.
  [[nodiscard, gnu::cold]] std::vector<completed_op> completed() const {
    std::vector<completed_op> ops;
    for (std::size_t r = 0; r < workers_.size(); ++r)
      if (const auto clock = workers_[r].clock; clock > 0)
        ops.push_back({clock, concat("its push ", clock), {static_cast<int>(r)}});
    return ops;
  }
  /// "version 7, rank 1, rank 2 ahead and waiting"
  [[nodiscard, gnu::cold]] std::string describe() const {
    std::string ahead;
    for (const int rank : waiting_) ahead += concat(", rank ", rank);
    return concat("the parameter server, version ", version_, ahead,
                  ahead.empty() ? "" : " ahead and waiting");
  }

 private:
  enum stage { left, joined, working };
  struct worker {
    stage state = left;
    std::int64_t clock = 0, received = 0;  // pushes; the version that it last received
  };

  [[nodiscard]] worker& of(int rank) { return workers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::int64_t slowest() const {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const worker& w : workers_)
      if (w.state == working) least = std::min(least, w.clock);
    return least;
  }
  [[nodiscard]] bool may_continue(const worker& w) const {
    return w.state == working && w.clock - slowest() <= options_.staleness_bound;
  }

  const asynchronous options_;
  std::vector<worker> workers_;
  std::vector<int> waiting_;  // ranks, in the order of their requests
  std::int64_t version_ = 0;
  int pushes_ = 0;  // of the next update
  std::vector<std::int64_t> staleness_;
};

}  // namespace detail::comm

}  // namespace cordee::inline CORDEE_ABI
