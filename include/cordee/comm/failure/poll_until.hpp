// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Waits by polling, for transports without a blocking wait that could be interrupted (MPI, NCCL).
//
// A wait for peers ends when its operation is complete; when the run has failed on another rank;
// when a peer has left the run; or at the deadline. In the last two cases it fails the run itself.
#pragma once

#include <chrono>
#include <cstdio>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include <cordee/comm/failure/error_context.hpp>
#include <cordee/comm/failure/failure.hpp>
#include <cordee/comm/failure/wait_timer.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/yield_policy.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// Polls ready() every `interval`. Returns false if it is not true within `timeout`. The time is
/// read before ready(), which so is called once more after it, however long this thread had no
/// core.
template <class Ready>
bool poll_until(const Ready& ready, wait_timer::clock::duration timeout,
                wait_timer::clock::duration interval) {
  for (const auto start = wait_timer::clock::now();;) {
    const bool is_over = wait_timer::clock::now() - start > timeout;
    if (ready()) return true;
    if (is_over) return false;
    std::this_thread::sleep_for(interval);
  }
}

/// How long a wait sleeps before it polls again: computing threads need the core.
inline constexpr std::chrono::microseconds poll_interval{50};
/// How long a wait yields between polls before it sleeps, or blocks.
inline constexpr std::chrono::milliseconds yield_at_most{1};

/// Yields, unless this thread's policy is against it: then returns false. After a slow yield it is
/// for 10,000 calls, which are at most 0.5 s of polling.
inline bool yield_core() {
  thread_local core::yield_policy policy(10'000);
  return policy.yield();
}

/// Yields in the first millisecond of a wait, where yields are fast, and sleeps after that.
inline void back_off(wait_timer::clock::duration waited) {
  if (waited < yield_at_most && yield_core()) return;
  std::this_thread::sleep_for(poll_interval);
}

struct wait_limits {
  using duration = wait_timer::clock::duration;

  int rank;
  duration deadline;
  const char* option;       // that sets the deadline, for the error: "mpi::options{.deadline}"
  duration control_after;   // how long a wait lasts before control messages are polled
  duration inspect_every;   // see wait_timer
  duration left_grace;      // see wait_timer
  bool waits_idle = false;  // waiting is this thread's normal state: it does not count as a wait
};

/// The first of `peers` that has left the run, or -1.
template <class Control>
int left_peer_of(const Control& control, std::span<const int> peers) {
  for (const int peer : peers)
    if (control.has_left(peer)) return peer;
  return -1;
}
/// The last peer of a batch's pending transfers that has, or -1.
template <class Control, class Batch>
int left_peer_among(const Control& control, const Batch& batch) {
  int left = -1;
  batch.for_pending_peers([&](int peer) {
    if (control.has_left(peer)) left = peer;
  });
  return left;
}

/// Blocks until wait.ready(). Requires of a wait
///   ready()      polls the operation
///   started()    whether its time counts: earlier work of the stream is no fault of a peer
///   inspect()    throws where a message has arrived whose size is not what is expected
///   left_peer()  a peer of the operation that has left the run, or -1
///   describe()   "rank 1 to send 16 bytes on context 0"
///   idle()       optional, and without the mutex: blocks until ready() may have changed, for the
///                poll interval at most
/// and of the control channel poll(), first_failure, fail(cause, stalled). All calls are made with
/// the mutex held. Throws error where the run has failed, or fails now.
template <class Wait, class Control, class Mutex>
class peer_wait {
 public:
  peer_wait(Wait& wait, Control& control, Mutex& mutex, const wait_limits& limits)
      : wait_(wait),
        control_(control),
        mutex_(mutex),
        limits_(limits),
        timer_(wait_timer::clock::now(), limits.inspect_every, limits.left_grace) {}

  void run() {
    for (wait_timer::clock::duration waited{}; !poll(waited);)
      if constexpr (!requires { wait_.idle(); })
        back_off(waited);
      else if (waited > yield_at_most || !yield_core())
        wait_.idle();
  }

 private:
  bool poll(wait_timer::clock::duration& waited) {
    const std::scoped_lock lock(mutex_);
    if (wait_.ready()) return true;
    const auto now = wait_timer::clock::now();
    if (!wait_.started()) timer_.restart(now);
    waited = timer_.elapsed(now);
    return waited > limits_.control_after && check(now, waited);
  }

  // Throws unless there is reason to keep waiting, or the operation is ready after all: this
  // thread may have had no core between ready() and now.
  [[gnu::cold]] bool check(wait_timer::clock::time_point now, wait_timer::clock::duration waited) {
    if (timer_.inspection_due(now)) {
      wait_.inspect();
      left_ = wait_.left_peer();
    }
    control_.poll();
    const bool left_for_good = timer_.left_for_good(left_, now);
    if (!control_.first_failure.happened()) {
      if (!left_for_good && waited <= limits_.deadline) return false;
      if (wait_.ready()) return true;
    }
    // A message of another size explains the wait best. A size that is being written at this moment
    // counts when it is seen a second time.
    for (int k = 0; k < 2; ++k) wait_.inspect();
    fail(waited);
  }

  [[noreturn, gnu::cold]] void fail(wait_timer::clock::duration waited) {
    const auto in_ms = [](wait_timer::clock::duration d) {
      return d / std::chrono::milliseconds(1);
    };
    const std::string pending = wait_.describe() + error_context::suffix();
    control_.first_failure.add_report(
        limits_.rank, concat("had waited ", in_ms(waited), " ms for ", pending),
        limits_.waits_idle ? failure::no_wait : std::chrono::milliseconds(in_ms(waited)),
        error_context::completed());
    if (control_.first_failure.happened())
      throw error(concat("rank ", limits_.rank, " aborted: ", control_.first_failure.cause()));
    const std::string why =
        left_ >= 0 ? concat("rank ", limits_.rank, " waits for ", wait_.describe(), ", but rank ",
                            left_, " has left the run: every rank must make the same exchanges",
                            error_context::suffix())
                   : concat("rank ", limits_.rank, " waited ", in_ms(limits_.deadline), " ms for ",
                            wait_.describe(),
                            ": it, or a rank that it waits for, is stuck or slower than ",
                            limits_.option, error_context::suffix());
    control_.fail(why, true);
    throw error(why);
  }

  Wait& wait_;
  Control& control_;
  Mutex& mutex_;
  const wait_limits limits_;
  wait_timer timer_;
  int left_ = -1;
};

template <class Wait, class Control, class Mutex>
void await_peers(Wait& wait, Control& control, Mutex& mutex, const wait_limits& limits) {
  peer_wait<Wait, Control, Mutex>(wait, control, mutex, limits).run();
}

/// For a control channel that locks itself.
struct no_mutex {
  void lock() {}
  void unlock() {}
};

/// Blocks until remaining(), which describes the ranks that have not left the run, is empty; after
/// a failure for the grace period at most. Returns those that have not left then. Prints them
/// whenever the deadline has passed once more.
template <class Remaining>
[[gnu::cold]] std::string await_leaving(int rank, std::chrono::milliseconds deadline,
                                        const failure& first_failure, const Remaining& remaining) {
  auto failed_since = wait_timer::clock::now(), printed = failed_since;
  while (true) {
    const auto now = wait_timer::clock::now();
    std::string ranks = remaining();
    if (ranks.empty()) return ranks;
    if (!first_failure.happened()) failed_since = now;
    if (now - failed_since > grace_period(deadline)) return ranks;
    if (now - printed > deadline) {
      std::fprintf(stderr, "cordee: rank %d has ended, and waits for %s\n", rank, ranks.c_str());
      printed = now;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

}  // namespace cordee::inline CORDEE_ABI::detail::comm
