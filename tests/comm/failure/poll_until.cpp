// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The wait loop of mpi and nccl, over an operation and a control channel of the test.
#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/failure/poll_until.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace std::chrono_literals;
using support::contains, support::error_message;

namespace {

struct fake_operation {
  std::atomic<int> polls_until_ready = -1;
  int polls_until_started = 0, left = -1, inspections = 0;
  bool mismatch = false;

  bool ready() { return polls_until_ready >= 0 && polls_until_ready-- == 0; }
  bool started() { return polls_until_started == 0 || --polls_until_started == 0; }
  void inspect() {
    ++inspections;
    if (mismatch) throw error("a message of another size");
  }
  [[nodiscard]] int left_peer() const { return left; }
  [[nodiscard]] static std::string describe() { return "rank 1 to send 16 bytes on context 0"; }
};

struct fake_control {
  failure first_failure{2};
  int polls = 0, polls_until_failure = -1;
  std::vector<std::string> failures{};

  void poll() {
    ++polls;
    if (polls == polls_until_failure) first_failure.record(1, "a failure elsewhere");
  }
  void fail(const std::string& why, bool stalled) {
    failures.push_back(why);
    first_failure.record(0, why, stalled);
  }
};

constexpr wait_limits limits{.rank = 0,
                             .deadline = 100ms,
                             .option = "test::options{.deadline}",
                             .control_after = 1ms,
                             .inspect_every = 10ms,
                             .left_grace = 20ms};

std::string wait_error(fake_operation& op, fake_control& control, wait_limits l = limits) {
  std::mutex mutex;
  return error_message([&] { await_peers(op, control, mutex, l); });
}

}  // namespace

TEST_CASE("poll_until: true as soon as its condition is, false after the timeout") {
  int calls = 0;
  CHECK(poll_until([&] { return ++calls == 3; }, 30s, 1ms));
  CHECK(calls == 3);
  const auto start = std::chrono::steady_clock::now();
  CHECK_FALSE(poll_until([] { return false; }, 20ms, 1ms));
  CHECK(std::chrono::steady_clock::now() - start >= 20ms);
}

TEST_CASE("waits: what has come while this thread had no core counts, also after the time") {
  // Not ready at its first call, after which the time is over; ready from then on.
  int calls = 0;
  const auto is_late = [&] {
    if (calls++ > 0) return true;
    std::this_thread::sleep_for(150ms);
    return false;
  };
  CHECK(poll_until(is_late, 50ms, 1ms));
  failure failed(2);
  failed.record(1, "a failure");
  calls = 0;
  CHECK(await_leaving(0, 50ms, failed, [&] { return std::string(is_late() ? "" : "rank 1"); }) ==
        "");
  struct late_operation : fake_operation {
    const decltype(is_late)& late;
    bool ready() const { return late(); }
  };
  for (const int left : {-1, 1}) {
    calls = 0;
    fake_control control;
    std::mutex mutex;
    late_operation op{{.left = left}, is_late};
    CHECK(error_message([&] { await_peers(op, control, mutex, limits); }) == "");
    CHECK(control.failures.empty());
  }
}

TEST_CASE("await_peers: it returns when the operation is ready, without an inspection at first") {
  fake_operation op{.polls_until_ready = 1};
  fake_control control;
  CHECK(wait_error(op, control,
                   {.rank = 0,
                    .deadline = 30s,
                    .option = "",
                    .control_after = 30s,
                    .inspect_every = {},
                    .left_grace = {}}) == "");
  CHECK(op.inspections == 0);
  CHECK(control.polls == 0);
}

TEST_CASE("await_peers: an operation's own idle() waits between polls, without the mutex") {
  struct idling : fake_operation {
    std::mutex& mutex;
    int idles = 0;
    [[nodiscard]] bool ready() const { return idles == 7; }
    void idle() {
      CHECK(mutex.try_lock());
      mutex.unlock();
      ++idles;
    }
  };
  std::mutex mutex;
  idling op{{}, mutex};
  fake_control control;
  CHECK(error_message([&] { await_peers(op, control, mutex, limits); }) == "");
  CHECK(op.idles == 7);
}

TEST_CASE(
    "await_peers: the deadline fails the run with the operation, the option and the context") {
  fake_operation op;
  fake_control control;
  const auto describe = [] { return "bucket 7"; };
  const error_context context(describe);
  const std::string message = wait_error(op, control);
  CHECK(
      message ==
      "rank 0 waited 100 ms for rank 1 to send 16 bytes on context 0: it, or a rank that it waits "
      "for, is stuck or slower than test::options{.deadline} (bucket 7)");
  CHECK(control.failures == std::vector{message});
  CHECK(control.first_failure.stalled());
  CHECK(contains(control.first_failure.report_of(0),
                 " ms for rank 1 to send 16 bytes on context 0 (bucket 7)"));
  CHECK(op.inspections >= 3);  // every 10 ms, and twice at the end
}

TEST_CASE("await_peers: time before the operation has started does not count") {
  fake_operation op{.polls_until_started = 1'000'000'000};
  fake_control control{.polls_until_failure = 1};
  std::thread finisher([&] {
    std::this_thread::sleep_for(300ms);
    op.polls_until_ready = 0;
  });
  CHECK(wait_error(op, control) == "");
  finisher.join();
  CHECK(control.polls == 0);
}

TEST_CASE(
    "await_peers: a failure of another rank ends the wait with its cause, and adds a report") {
  fake_operation op;
  fake_control control{.polls_until_failure = 2};
  CHECK(wait_error(op, control) == "rank 0 aborted: rank 1: a failure elsewhere");
  CHECK(control.failures.empty());
  CHECK(contains(control.first_failure.report_of(0), "had waited "));
}

TEST_CASE("await_peers: a peer that has left ends the wait after the grace, before the deadline") {
  fake_operation op{.left = 1};
  fake_control control;
  wait_limits long_limits = limits;
  long_limits.deadline = 30s;
  const auto start = std::chrono::steady_clock::now();
  CHECK(contains(wait_error(op, control, long_limits),
                 "rank 0 waits for rank 1 to send 16 bytes on context 0, but rank 1 has left the "
                 "run: every rank must make the same exchanges"));
  CHECK(std::chrono::steady_clock::now() - start >= 20ms);
  CHECK(std::chrono::steady_clock::now() - start < 20s);
}

TEST_CASE("await_peers: a message of another size is thrown instead of the deadline's error") {
  fake_operation op{.mismatch = true};
  fake_control control;
  CHECK(wait_error(op, control) == "a message of another size");
}

TEST_CASE("await_peers: a thread that waits idle reports no time, so that it stays suspected") {
  for (const bool waits_idle : {false, true}) {
    fake_operation op;
    fake_control control;
    wait_limits l = limits;
    l.waits_idle = waits_idle;
    (void)wait_error(op, control, l);
    control.first_failure.add_report(1, "had waited 5000 ms", 5000ms);
    CHECK(contains(control.first_failure.describe(), waits_idle
                                                         ? "suspected: rank 0 (reported no wait)"
                                                         : "suspected: rank 0 (shortest wait)"));
  }
}

TEST_CASE("await_leaving: empty when all have left, else the rest when the grace period is over") {
  failure none(2), failed(2);
  failed.record(1, "a failure");
  int polls = 0;
  CHECK(await_leaving(0, 1s, none, [&] { return std::string(++polls < 3 ? "rank 1" : ""); }) == "");
  const auto start = std::chrono::steady_clock::now();
  CHECK(await_leaving(0, 50ms, failed, [] { return std::string("rank 1"); }) == "rank 1");
  CHECK(std::chrono::steady_clock::now() - start >= 50ms);
}
