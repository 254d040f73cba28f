// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The first failure of a run, which ends it on every rank, and what each rank was waiting for when
// it learned of it.
//
// After a stall the waits form a chain: every rank waits for the next one, which began to wait
// later; the end of the chain waits for no rank. So the suspected ranks are those that report no
// wait, or else the one with the shortest wait.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/comm/failure/error_context.hpp>
#include <cordee/core/algorithm.hpp>
#include <cordee/core/atomic.hpp>
#include <cordee/core/clock.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/mutex.hpp>
#include <cordee/core/thread.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// Sums and products of times with it do not overflow.
inline constexpr std::chrono::milliseconds longest_deadline = std::chrono::hours(24 * 365 * 100);

/// A transport's deadline as its waits take it: the longest one in place of a longer one. Throws
/// usage_error, which names the `option`, for 0 or less.
[[gnu::cold]] inline std::chrono::milliseconds checked_deadline(std::chrono::milliseconds deadline,
                                                                const char* option) {
  if (deadline.count() <= 0)
    throw usage_error(concat(option, " is ", deadline.count(),
                             " ms, but must be above 0; std::chrono::milliseconds::max() waits "
                             "without a limit"));
  return std::min(deadline, longest_deadline);
}

/// After a failure, how long the other ranks may take to end.
constexpr std::chrono::milliseconds grace_period(std::chrono::milliseconds deadline) {
  return std::min(deadline, std::chrono::milliseconds(10'000));
}

class failure {
 public:
  using ms = std::chrono::milliseconds;
  static constexpr ms no_wait{-1};

  [[gnu::cold]] explicit failure(int ranks) : reports_(static_cast<std::size_t>(ranks)) {}
  failure(const failure&) = delete;
  failure& operator=(const failure&) = delete;
  [[gnu::cold]] ~failure() = default;

  /// Where each rank is, "10.0.0.7:40584": messages add it from now on.
  [[gnu::cold]] void set_addresses(std::vector<std::string> addresses) {
    const core::scoped_lock lock(mutex_);
    addresses_ = std::move(addresses);
  }
  /// "rank 2 at 10.0.0.7:40584", or "rank 2" where no address is known.
  [[nodiscard, gnu::cold]] std::string name_of(int rank) const {
    const core::scoped_lock lock(mutex_);
    return name(static_cast<std::size_t>(rank));
  }

  /// Records a failure of `rank`; only the first one counts. `stalled`: a wait reached its deadline
  /// or its peer left, so describe() adds the reports of all ranks. Returns whether it was the
  /// first.
  [[gnu::cold]] bool record(int rank, const std::string& cause, bool stalled = false) {
    const core::scoped_lock lock(mutex_);
    if (happened_) return false;
    failed_rank_ = rank;
    cause_ = cause;
    stalled_ = stalled;
    happened_ = true;
    return true;
  }

  /// Adds what a rank was waiting for when it learned of the failure ("had waited 20 ms for rank 2
  /// to send ..."), for how long, unless waiting is that thread's normal state, and the operations
  /// it has completed. Each thread of the rank may add a report.
  [[gnu::cold]] void add_report(int rank, const std::string& text, ms waited = no_wait,
                                const std::vector<completed_op>& completed = {}) {
    const core::scoped_lock lock(mutex_);
    rank_report& r = reports_[static_cast<std::size_t>(rank)];
    if (r.text.find(text) == std::string::npos) r.text += concat(r.text.empty() ? "" : "; ", text);
    r.waited = std::max(r.waited, waited);
    for (const completed_op& op : completed) merge(r.completed, op);
  }
  /// A rank's reports as text for another process, which calls merge_report.
  [[nodiscard, gnu::cold]] std::string serialize_report(int rank) const {
    const core::scoped_lock lock(mutex_);
    const auto& [text, waited, completed] = reports_[static_cast<std::size_t>(rank)];
    std::string all = concat(waited.count(), ' ', text.size(), '\n', text);
    for (const completed_op& op : completed) all += concat(op.serialize(), '\n');
    return all;
  }
  /// Parses another process's report, which may be cut off anywhere, since control messages are
  /// short; anything that serialize_report did not write is ignored. Defined in failure_report.hpp.
  void merge_report(int rank, std::string_view serialized);

  /// Notes that rank 0, which relays other ranks' reports, has not answered since the failure, so
  /// that their silence means nothing.
  [[gnu::cold]] void note_silent_server() {
    const core::scoped_lock lock(mutex_);
    silent_server_ = true;
  }

  [[nodiscard]] bool happened() const { return happened_; }
  [[nodiscard]] bool stalled() const {
    const core::scoped_lock lock(mutex_);
    return stalled_;
  }
  [[nodiscard]] int failed_rank() const {
    const core::scoped_lock lock(mutex_);
    return failed_rank_;
  }
  [[nodiscard]] std::string report_of(int rank) const {
    const core::scoped_lock lock(mutex_);
    return reports_[static_cast<std::size_t>(rank)].text;
  }

  /// "rank 2: ..."
  [[nodiscard, gnu::cold]] std::string cause() const {
    const core::scoped_lock lock(mutex_);
    return concat(name(static_cast<std::size_t>(failed_rank_)), ": ", cause_);
  }
  /// The cause; after a stall also a line for each rank, and the suspected ranks.
  [[nodiscard, gnu::cold]] std::string describe() const {
    std::string text = cause();
    const core::scoped_lock lock(mutex_);
    if (!stalled_) return text;
    for (std::size_t rank = 0; rank < reports_.size(); ++rank)
      text += concat("\n  rank ", rank, " ",
                     reports_[rank].text.empty()
                         ? concat("reported no wait", last_participation(static_cast<int>(rank)))
                         : reports_[rank].text);
    return concat(text, "\n  suspected: ", suspected_ranks());
  }

 private:
  struct rank_report {
    std::string text;
    ms waited = no_wait;
    std::vector<completed_op> completed;
  };

  [[nodiscard, gnu::cold]] std::string name(std::size_t rank) const {
    return rank < addresses_.size() ? concat("rank ", rank, " at ", addresses_[rank])
                                    : concat("rank ", rank);
  }
  // The last operation with a silent rank that another rank has completed.
  [[nodiscard, gnu::cold]] std::string last_participation(int silent) const {
    std::size_t reporter = 0;
    const completed_op* last = nullptr;
    for (std::size_t rank = 0; rank < reports_.size(); ++rank)
      for (const completed_op& op : reports_[rank].completed)
        if (op.includes(silent) && (last == nullptr || op.count > last->count)) {
          last = &op;
          reporter = rank;
        }
    return last == nullptr ? ""
                           : concat("; took part up to ", last->name, ", which rank ", reporter,
                                    " has finished");
  }
  [[nodiscard, gnu::cold]] std::string suspected_ranks() const {
    if (silent_server_)
      return concat(name(0),
                    " (does not answer, nor pass on the other ranks' reports: its process is "
                    "stopped, its host is down, or the network between it and this rank is cut)");
    std::string silent;
    std::size_t shortest = 0;
    for (std::size_t rank = 0; rank < reports_.size(); ++rank) {
      if (reports_[rank].waited == no_wait)
        silent += concat(silent.empty() ? "" : ", ", name(rank));
      if (reports_[rank].waited < reports_[shortest].waited) shortest = rank;
    }
    return silent.empty() ? concat(name(shortest), " (shortest wait)")
                          : concat(silent, " (reported no wait)");
  }

  mutable core::mutex mutex_;
  core::atomic<bool> happened_{false};
  bool stalled_ = false, silent_server_ = false;
  int failed_rank_ = -1;
  std::string cause_;
  std::vector<rank_report> reports_;
  std::vector<std::string> addresses_;  // by rank, or none
};

/// f() as one rank's part in a run of processes. An exception of f fails the run; leaves the run;
/// and throws the run's first failure, of whatever rank, after a stall with all ranks' reports: the
/// lowest rank that is known to have left throws it as error, and the others throw aborted.
template <class World, class F>
void run_rank(World& world, const F& f) {
  try {
    f();
  } catch (const std::exception& e) {
    world.fail(e.what());
  } catch (...) {
    world.fail("threw something that is not a std::exception");
  }
  world.leave();
  const failure& first = world.first_failure();
  if (!first.happened()) return;
  for (int lower = 0; lower < world.rank(); ++lower) {
    if (!world.has_left(lower)) continue;
    // A launcher may kill the others when one process ends: the lower rank prints the cause first.
    core::sleep_for(std::chrono::milliseconds(200));
    throw aborted(concat("rank ", world.rank(), " ended with the run: ", first.describe()));
  }
  throw error(first.describe());
}

}  // namespace cordee::inline CORDEE_ABI::detail::comm
