// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of one process share: endpoints, shared means, which ranks have left, and the
// first failure.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <cordee/comm/failure/error_context.hpp>
#include <cordee/comm/failure/failure.hpp>
#include <cordee/comm/transports/threads/endpoint.hpp>
#include <cordee/comm/transports/threads/exit_latch.hpp>
#include <cordee/comm/transports/threads/shared_mean.hpp>
#include <cordee/comm/transports/threads/starved_time.hpp>
#include <cordee/comm/transports/transport.hpp>
#include <cordee/core/atomic.hpp>
#include <cordee/core/clock.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/owned_array.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

class thread_world {
 public:
  [[gnu::cold]] thread_world(int ranks, std::chrono::milliseconds wait_limit)
      : size(ranks),
        deadline(wait_limit),
        first_failure(ranks),
        endpoints_(static_cast<std::size_t>(ranks * context_count)),
        means_{shared_mean(ranks), shared_mean(ranks), shared_mean(ranks), shared_mean(ranks)},
        left_(static_cast<std::size_t>(ranks)) {
    for (endpoint& e : endpoints_) e.queues = core::owned_array<spsc_queue>(left_.size());
  }
  thread_world(const thread_world&) = delete;
  thread_world& operator=(const thread_world&) = delete;
  [[gnu::cold, gnu::noinline]] ~thread_world() = default;

  endpoint& endpoint_of(int rank, int context) {
    return endpoints_[static_cast<std::size_t>(rank * context_count + context)];
  }
  shared_mean& mean_of(int context) { return means_[context]; }

  /// Records the first failure, which wakes every waiting rank. Returns whether this was the first.
  [[gnu::cold]] bool fail(int rank, const std::string& cause, bool stalled = false) {
    const bool is_first = first_failure.record(rank, cause, stalled);
    if (is_first) notify_all();
    return is_first;
  }
  [[nodiscard]] bool failed() const { return first_failure.happened(); }

  [[gnu::cold]] void leave(int rank) {
    left_[static_cast<std::size_t>(rank)] = true;
    notify_all();
  }
  [[nodiscard]] bool has_left(int rank) const { return left_[static_cast<std::size_t>(rank)]; }

  /// The end of the chain of waits that begins at `peer`: the rank that it waits for on this
  /// context, the one that that waits for, and so on; `peer` itself where the waits form a cycle. A
  /// server that owes a reply waits for requests.
  [[nodiscard]] int end_of_wait_chain(int peer, int context) {
    int last = peer;
    for (int hop = 0; hop < size; ++hop) {
      const int next = context == reply_context ? endpoint_of(last, request_context).expected_source
                                                : endpoint_of(last, context).awaited_peer;
      if (next < 0) return last;
      last = next;
    }
    return peer;
  }

  /// Fails the run and throws: `rank` has waited since `start` for `pending` ("rank 1 to send 16
  /// bytes on context 0"), and the run has failed, or `peer` has `left`, or the deadline has
  /// passed. `waits_idle`: waiting is that thread's normal state, so the report has no time.
  [[noreturn, gnu::cold]] void fail_wait(int rank, int context, const std::string& pending,
                                         int peer, bool left,
                                         std::chrono::steady_clock::time_point start,
                                         bool waits_idle = false) {
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - start);
    const int suspect = left || peer < 0 ? peer : end_of_wait_chain(peer, context);
    const std::string why =
        left ? concat("rank ", rank, " waits for ", pending, ", but rank ", peer,
                      " has left the run: every rank must make the same exchanges",
                      error_context::suffix())
             : concat(
                   "rank ", rank, " waited ", deadline.count(), " ms for ", pending,
                   suspect == peer ? "" : concat(", which waits for rank ", suspect, " to answer"),
                   ": it is stuck, or slower than threads::options{.deadline}",
                   error_context::suffix());
    first_failure.add_report(
        rank, concat("had waited ", waited.count(), " ms for ", pending, error_context::suffix()),
        waits_idle ? failure::no_wait : waited, error_context::completed());
    const bool is_first = fail(rank, why, true);
    throw error(is_first ? why : concat("rank ", rank, " aborted: ", first_failure.cause()));
  }

  /// Fails the run and throws: `rank` has received what it does not expect.
  [[noreturn, gnu::cold]] void fail_mismatch(int rank, const std::string& why) {
    const std::string in_context = concat(why, error_context::suffix());
    fail(rank, in_context);
    throw error(in_context);
  }

  /// Blocks until every rank has ended. After a failure none may take longer than the grace period,
  /// of the time in which the process has cores.
  [[gnu::cold]] void await_exit(exit_latch& ended) const {
    ended.wait([&] { return failed(); });
    if (!failed()) return;
    starved_time starved;
    const std::vector<int> late =
        ended.missing_after(grace_period(deadline), [&] { return starved.longest(); });
    if (late.empty()) return;
    // A thread cannot be killed, and the other threads use its memory: only the process can end.
    for (const int rank : late)
      std::fprintf(
          stderr,
          "cordee: rank %d did not end within %lld ms, beside %lld ms in which a thread of "
          "this process had no core, after the failure of %s\n",
          rank, static_cast<long long>(grace_period(deadline).count()),
          static_cast<long long>(starved.longest().count()), first_failure.describe().c_str());
    std::fflush(nullptr);
    std::_Exit(EXIT_FAILURE);
  }

  /// A message that was sent and never received, when all ranks have left; empty if there is none.
  [[nodiscard, gnu::cold]] std::string unreceived() {
    for (int context = 0; context < context_count; ++context)
      for (int rank = 0; rank < size; ++rank)
        for (int peer = 0; peer < size; ++peer)
          if (const packet* p =
                  endpoint_of(rank, context).queues[static_cast<std::size_t>(peer)].front())
            return concat("rank ", peer, " sent ", p->size, " bytes to rank ", rank, " on context ",
                          context,
                          ", which has left the run without receiving them: every rank must make "
                          "the same exchanges");
    return {};
  }

  const int size;
  const std::chrono::milliseconds deadline;
  failure first_failure;

 private:
  [[gnu::cold, gnu::noinline]] void notify_all() {
    for (endpoint& e : endpoints_) e.waiter.notify_all();
    for (shared_mean& m : means_) m.notify_all();
  }

  core::owned_array<endpoint> endpoints_;
  shared_mean means_[context_count];
  core::owned_array<core::atomic<bool>> left_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
