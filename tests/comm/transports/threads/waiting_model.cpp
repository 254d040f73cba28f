// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The waiting protocols of ranks as threads, step by step as in comm/threads/, in all interleavings
// of two and three threads: no state in which a thread sleeps, what it waits for is true, and no
// thread is left that would wake it. Each planted fault is found.
#include <doctest/doctest.h>

#include <cordee/core/config.hpp>

#include "tests/support/state_space.hpp"

using namespace support;

namespace {

// Shared variables.
enum {
  mutex,
  sleepers,
  ready,
  ready2,
  ended0,
  ended1,
  failed,
  claimed,
  canceled,
  reading,
  freed,
  arrivals
};
constexpr int changed = 0;  // the condition variable

// Appends `part`, whose jumps are relative to its start; a jump past its end goes to what follows.
program operator+(program p, const program& part) {
  const int start = static_cast<int>(p.size());
  for (step s : part) {
    s.target += start;
    p.push_back(s);
  }
  return p;
}

// spin_then_sleep::wait for one variable; the spin is the first load, made at any time.
program wait(int condition) {
  return {{step::jump_if, condition, 1, 9},  // 0
          {step::lock, mutex},               // 1
          {step::add, sleepers, 1},          // 2
          {step::jump_if, condition, 1, 7},  // 3
          {step::sleep, mutex, changed},     // 4
          {step::lock, mutex},               // 5
          {step::jump, 0, 0, 3},             // 6
          {step::add, sleepers, -1},         // 7
          {step::unlock, mutex}};            // 8
}
// spin_then_sleep::notify_all.
program notify() {
  return {{step::jump_if, sleepers, 0, 4},
          {step::lock, mutex},
          {step::notify_all, 0, changed},
          {step::unlock, mutex}};
}
program set(int condition) { return {{step::store_seq, condition, 1}}; }

// exit_latch::arrive and wait, as the launcher calls them.
program arrive(int rank) {
  return {{step::lock, mutex},
          {step::store, ended0 + rank, 1},
          {step::notify_all, 0, changed},
          {step::unlock, mutex}};
}
program await_all_or_failure() {
  return {{step::lock, mutex},            // 0
          {step::jump_if, failed, 1, 6},  // 1
          {step::jump_if, ended0, 0, 4},  // 2
          {step::jump_if, ended1, 1, 6},  // 3
          {step::sleep, mutex, changed},  // 4
          {step::jump, 0, 0, 0},          // 5: lock again
          {step::unlock, mutex}};         // 6
}
program await_all() {
  return {{step::lock, mutex},           {step::jump_if, ended0, 0, 3},
          {step::jump_if, ended1, 1, 5}, {step::sleep, mutex, changed},
          {step::jump, 0, 0, 0},         {step::unlock, mutex}};
}

std::size_t stuck(std::vector<program> threads) {
  const state_space all(std::move(threads));
  MESSAGE(all.states() << " states, " << all.stuck() << " of them stuck");
  CHECK(all.states() > 20);
  return all.stuck();
}

}  // namespace

TEST_CASE("waiting_model: no notification of spin_then_sleep is lost") {
  CHECK(stuck({wait(ready), set(ready) + notify()}) == 0);
  CHECK(stuck({wait(ready), wait(ready), set(ready) + notify()}) == 0);
  // One endpoint is notified of packets and of completions, by two threads.
  CHECK(stuck({wait(ready) + wait(ready2), set(ready) + notify(), set(ready2) + notify()}) == 0);
  CHECK(stuck({wait(ready), wait(ready2), set(ready) + notify() + set(ready2) + notify()}) == 0);
  // A ping-pong: each thread wakes the other one.
  CHECK(stuck({set(ready) + notify() + wait(ready2), wait(ready) + set(ready2) + notify()}) == 0);
}

TEST_CASE("waiting_model: planted faults of spin_then_sleep are found") {
  SUBCASE("notified before the condition is true") {
    CHECK(stuck({wait(ready), notify() + set(ready)}) > 0);
  }
  SUBCASE("the condition is stored with release: the count is read before others see it") {
    CHECK(stuck({wait(ready), program{{step::store, ready, 1}} + notify()}) > 0);
  }
  SUBCASE("notified without the mutex") {
    const program unlocked{{step::jump_if, sleepers, 0, 2}, {step::notify_all, 0, changed}};
    CHECK(stuck({wait(ready), set(ready) + unlocked}) > 0);
  }
  SUBCASE("the sleeper is counted after its last look at the condition") {
    program late = wait(ready);
    std::swap(late[2], late[3]);
    CHECK(stuck({late, set(ready) + notify()}) > 0);
  }
  SUBCASE("one of two sleepers is notified") {
    program one = notify();
    one[2].kind = step::notify_one;
    CHECK(stuck({wait(ready), wait(ready), set(ready) + one}) > 0);
  }
}

TEST_CASE(
    "waiting_model: the launcher sees that all ranks have ended, and that the run has failed") {
  CHECK(stuck({await_all_or_failure() + await_all(), arrive(0), arrive(1)}) == 0);
  CHECK(stuck({await_all_or_failure() + await_all(), set(failed) + arrive(0), arrive(1)}) == 0);
  const program silent{{step::store_seq, ended0, 1}};
  CHECK(stuck({await_all(), silent, arrive(1)}) > 0);
  // A rank that fails and does not end wakes nobody: the launcher must look by itself, which the
  // model's sleep does not.
  CHECK(stuck({await_all_or_failure(), set(failed), arrive(1)}) > 0);
}

TEST_CASE("waiting_model: no rank reads memory that its sender has canceled") {
  const auto holds = [](const machine_state& s) {
    return s.memory[reading] == 0 || s.memory[freed] == 0;
  };
  // The receiver: try_claim, read, done, notify. It receives, or finds the packet canceled.
  const program receiver = program{
      {step::lock, mutex},         {step::jump_if, canceled, 1, 9}, {step::store, claimed, 1},
      {step::unlock, mutex},       {step::store_seq, reading, 1},   {step::store_seq, reading, 0},
      {step::store_seq, ready, 1},  // done
      {step::choose, 0, 0, 8},     {step::jump, 0, 0, 10},          {step::unlock, mutex}};
  // The sender: waits for done or gives up, cancels, waits for done where it is claimed, returns.
  const auto sender = [](bool waits_for_claimed) {
    return program{{step::jump_if, ready, 1, 9},
                   {step::choose, 0, 0, 0},  // gives up, or looks again
                   {step::lock, mutex},
                   {step::jump_if, claimed, 1, 7},
                   {step::store, canceled, 1},
                   {step::unlock, mutex},
                   {step::jump, 0, 0, 9},
                   {step::unlock, mutex},
                   {step::jump_if, ready, 0, waits_for_claimed ? 8 : 9},
                   {step::store_seq, freed, 1}};
  };
  const state_space right({receiver, sender(true)}, holds), wrong({receiver, sender(false)}, holds);
  MESSAGE(right.states() << " and " << wrong.states() << " states");
  CHECK(right.stuck() == 0);
  CHECK(right.violations() == 0);
  CHECK(right.ends() > 0);
  CHECK(wrong.violations() > 0);
}

TEST_CASE("waiting_model: a rank that withdraws from a barrier leaves no other one in it") {
  // shared_mean::enter_barrier of two ranks. Each arrives and looks
  // until both have, or its deadline passes; then it withdraws
  // unless both have arrived. 1: it has passed, 2: it has withdrawn.
  const auto rank = [](int own, bool atomically) {
    const step withdraw =
        atomically ? step{step::exchange, arrivals, 1, 3, 0} : step{step::add, arrivals, -1};
    return program{{step::add, arrivals, 1},            // 0
                   {step::jump_below, arrivals, 2, 4},  // 1
                   {step::store_seq, ended0 + own, 1},  // 2
                   {step::jump, 0, 0, 7},               // 3
                   {step::choose, 0, 0, 1},             // 4: the deadline passes, or it looks again
                   withdraw,                            // 5
                   {step::store_seq, ended0 + own, 2}};  // 6
  };
  const auto holds = [](const machine_state& s) {
    return s.memory[ended0] + s.memory[ended1] != 3;  // never one that passed and one that withdrew
  };
  // As both have arrived, a failed exchange means that the barrier is complete: step 2.
  const auto right = [&](int own) {
    program p = rank(own, true);
    p[5].target = 2;
    return p;
  };
  const state_space atomic({right(0), right(1)}, holds),
      careless({rank(0, false), rank(1, false)}, holds);
  CHECK(atomic.stuck() == 0);
  CHECK(atomic.violations() == 0);
  CHECK(atomic.ends() > 0);
  CHECK(careless.violations() > 0);
}
