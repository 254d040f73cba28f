// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of one process share: desks, tables, who has left, and the first failure.
#pragma once

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <cordee/comm/errand.hpp>
#include <cordee/comm/failure.hpp>
#include <cordee/comm/threads/desk.hpp>
#include <cordee/comm/threads/roll_call.hpp>
#include <cordee/comm/threads/round_table.hpp>
#include <cordee/comm/transport.hpp>
#include <cordee/core/clock.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI::detail {

class thread_world {
 public:
  [[gnu::cold]] thread_world(int size, std::chrono::milliseconds deadline)
      : size(size), deadline(deadline), first(size), left_(static_cast<std::size_t>(size)) {
    for (int i = 0; i < size * lane_count; ++i) desks_.push_back(std::make_unique<desk>(size));
    for (auto& t : tables_) t = std::make_unique<round_table>(size);
  }

  desk& at(int rank, int lane) {
    return *desks_[static_cast<std::size_t>(rank * lane_count + lane)];
  }
  round_table& table(int lane) { return *tables_[static_cast<std::size_t>(lane)]; }

  /// Records the first cause only; whoever waits gives up. Whether this was the first.
  bool fail(int rank, const std::string& cause, bool stalled = false) {
    const bool mine = first.arise(rank, cause, stalled);
    if (mine) wake();
    return mine;
  }
  [[nodiscard]] bool failed() const { return first.happened(); }

  void leave(int rank) {
    left_[static_cast<std::size_t>(rank)] = true;
    wake();
  }
  [[nodiscard]] bool has_left(int rank) const { return left_[static_cast<std::size_t>(rank)]; }

  /// Who is behind it that `peer` does not answer on this lane: whoever it waits for itself, and so
  /// on; `peer` where they wait in a circle. Who serves waits for requests.
  [[nodiscard]] int behind(int peer, int lane) {
    int last = peer;
    for (int hop = 0; hop < size; ++hop) {
      const int next = lane == answer_lane ? at(last, request_lane).due : at(last, lane).awaited;
      if (next < 0) return last;
      last = next;
    }
    return peer;
  }

  /// The run fails, for `rank` has waited since `start` for "rank 1 to send 16 bytes on lane 0",
  /// and somebody has failed, or `peer` has `gone`, or the deadline is over. Who
  /// `serves` is silent of its time: to wait is what that thread is for.
  [[noreturn, gnu::cold]] void give_up(int rank, int lane, const std::string& awaited, int peer,
                                       bool gone, steady_clock::time_point start,
                                       bool serves = false) {
    const auto waited =
        std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - start);
    const int culprit = gone || peer < 0 ? peer : behind(peer, lane);
    const std::string why =
        gone ? text("rank ", rank, " waits for ", awaited, ", but rank ", peer,
                    " has left the run: every rank must make the same exchanges", errand::words())
             : text("rank ", rank, " waited ", deadline.count(), " ms for ", awaited,
                    culprit == peer ? "" : text(", which waits for rank ", culprit, " to answer"),
                    ": it is stuck, or slower than threads::options{.deadline}", errand::words());
    first.report(rank, text("had waited ", waited.count(), " ms for ", awaited, errand::words()),
                 serves ? failure::never : waited, errand::reached());
    const bool mine = fail(rank, why, true);
    throw error(mine ? why : text("rank ", rank, " gave up: ", first.cause()));
  }

  /// The run fails because of what `rank` has found.
  [[noreturn, gnu::cold]] void refuse(int rank, const std::string& why) {
    fail(rank, why + errand::words());
    throw error(why + errand::words());
  }

  /// Until every rank has ended. After a failure none may take longer than the grace.
  [[gnu::cold]] void await_end(roll_call& ended) const {
    ended.wait([&] { return failed(); });
    const std::vector<int> late = ended.missing(grace(deadline));
    if (late.empty()) return;
    // A thread cannot be ended from outside, and its memory is the others': only the process can.
    for (const int rank : late)
      std::fprintf(stderr, "cordee: rank %d did not end within %lld ms after the failure of %s\n",
                   rank, static_cast<long long>(grace(deadline).count()), first.in_full().c_str());
    std::fflush(nullptr);
    std::_Exit(EXIT_FAILURE);
  }

  /// What nobody heard, when all have left: a sentence, or nothing.
  [[nodiscard]] std::string unheard() {
    for (int lane = 0; lane < lane_count; ++lane)
      for (int rank = 0; rank < size; ++rank)
        for (int peer = 0; peer < size; ++peer)
          if (const note* n = at(rank, lane).from[static_cast<std::size_t>(peer)].next())
            return text("rank ", peer, " said ", n->size, " bytes to rank ", rank, " on lane ",
                        lane,
                        ", which has left the run without hearing them: every rank must make the "
                        "same exchanges");
    return {};
  }

  const int size;
  const std::chrono::milliseconds deadline;
  failure first;

 private:
  void wake() {
    for (const auto& d : desks_) d->room.wake();
    for (const auto& t : tables_) t->wake();
  }

  std::vector<std::unique_ptr<desk>> desks_;
  std::array<std::unique_ptr<round_table>, lane_count> tables_;
  std::vector<std::atomic<bool>> left_;
};

}  // namespace cordee::inline CORDEE_ABI::detail
