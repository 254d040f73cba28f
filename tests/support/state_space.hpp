// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An exhaustive search of all interleavings of small concurrent programs: what a stress test may
// never meet, this cannot miss, within the model.
//
// A program is a list of atomic steps on shared variables, mutexes and condition variables. Memory
// is that of x86 (total store order): a `store` that is not sequentially consistent enters the
// thread's buffer and reaches memory at some later step; loads read the newest own store of the
// variable in the buffer, or else memory; everything else waits until the buffer is empty. A
// condition variable wakes only when it is notified, so that neither a spurious wake-up nor a
// timeout conceals that a notification was lost.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace support {

struct step {
  enum kind_of_step : std::uint8_t {
    store,       // variable <- value, in program order for this thread, later for the others
    store_seq,   // the same, sequentially consistent
    add,         // variable += value, sequentially consistent
    jump_if,     // to `target` where the variable is `value`
    jump_below,  // to `target` where the variable is below `value`
    jump,        // to `target`
    choose,      // to the next step, or to `target`: a timeout, or another outcome
    exchange,    // where the variable is `value`, it becomes `replacement`; else to `target`
    lock,        // blocks until the variable, a mutex, is 0
    unlock,
    sleep,       // unlocks the mutex and blocks until the condition variable `value` is notified
    notify_all,  // condition variable `value`
    notify_one,  // any one of its sleepers
  } kind;
  int variable = 0, value = 0, target = 0, replacement = 0;
};
using program = std::vector<step>;

struct thread_state {
  std::uint8_t next = 0;    // the step; the program's size: it has ended
  std::uint8_t asleep = 0;  // 1 + the condition variable
  std::vector<std::pair<std::uint8_t, std::int8_t>> buffer{};  // of stores, oldest first

  friend auto operator<=>(const thread_state&, const thread_state&) = default;
};
struct machine_state {
  std::array<std::int8_t, 12> memory{};
  std::vector<thread_state> threads;

  friend auto operator<=>(const machine_state&, const machine_state&) = default;
};

class state_space {
 public:
  using invariant = std::function<bool(const machine_state&)>;

  explicit state_space(std::vector<program> programs, invariant holds = {})
      : programs_(std::move(programs)), holds_(std::move(holds)) {
    machine_state start;
    start.threads.resize(programs_.size());
    reach(start);
    while (!open_.empty()) {
      const machine_state s = std::move(open_.back());
      open_.pop_back();
      expand(s);
    }
  }

  [[nodiscard]] std::size_t states() const { return seen_.size(); }
  /// States in which no thread can move, and one has not ended.
  [[nodiscard]] std::size_t stuck() const { return stuck_; }
  /// States in which the invariant does not hold.
  [[nodiscard]] std::size_t violations() const { return violations_; }
  /// States in which all threads have ended.
  [[nodiscard]] std::size_t ends() const { return ends_; }

 private:
  void reach(const machine_state& s) {
    if (!seen_.insert(s).second) return;
    if (holds_ && !holds_(s)) ++violations_;
    open_.push_back(s);
  }

  void expand(const machine_state& s) {
    bool moves = false, ended = true;
    for (std::size_t t = 0; t < programs_.size(); ++t) {
      const thread_state& own = s.threads[t];
      if (!own.buffer.empty()) {
        machine_state flushed = s;
        auto& buffer = flushed.threads[t].buffer;
        flushed.memory[buffer.front().first] = buffer.front().second;
        buffer.erase(buffer.begin());
        reach(flushed);
        moves = true;
      }
      if (own.next == programs_[t].size()) continue;
      ended = false;
      if (own.asleep == 0) moves = execute(s, t, programs_[t][own.next]) || moves;
    }
    if (moves) return;
    ++(ended ? ends_ : stuck_);
  }

  // Reaches the states after this step of thread t; false where it is blocked.
  bool execute(const machine_state& s, std::size_t t, const step& op) {
    const auto variable = static_cast<std::uint8_t>(op.variable);
    const bool buffered = op.kind == step::store || op.kind == step::unlock;
    const bool reads = op.kind == step::jump_if || op.kind == step::jump_below ||
                       op.kind == step::jump || op.kind == step::choose;
    if (!buffered && !reads && !s.threads[t].buffer.empty()) return false;
    machine_state after = s;
    thread_state& own = after.threads[t];
    std::int8_t& memory = after.memory[variable];
    std::int8_t value = memory;
    for (const auto& [stored, v] : own.buffer)
      if (stored == variable) value = v;
    const auto next = static_cast<std::uint8_t>(own.next + 1);
    const auto target = static_cast<std::uint8_t>(op.target);
    own.next = next;
    switch (op.kind) {
      case step::store:
        own.buffer.emplace_back(variable, static_cast<std::int8_t>(op.value));
        break;
      case step::unlock:
        own.buffer.emplace_back(variable, std::int8_t{0});
        break;
      case step::store_seq:
        memory = static_cast<std::int8_t>(op.value);
        break;
      case step::add:
        memory = static_cast<std::int8_t>(memory + op.value);
        break;
      case step::jump_if:
        own.next = value == op.value ? target : next;
        break;
      case step::jump_below:
        own.next = value < op.value ? target : next;
        break;
      case step::jump:
        own.next = target;
        break;
      case step::choose:
        reach(after);
        own.next = target;
        break;
      case step::exchange:
        if (memory == op.value)
          memory = static_cast<std::int8_t>(op.replacement);
        else
          own.next = target;
        break;
      case step::lock:
        if (memory != 0) return false;
        memory = 1;
        break;
      case step::sleep:
        memory = 0;
        own.asleep = static_cast<std::uint8_t>(1 + op.value);
        break;
      case step::notify_all:
        for (thread_state& other : after.threads)
          if (other.asleep == 1 + op.value) other.asleep = 0;
        break;
      case step::notify_one: {
        bool found = false;
        for (std::size_t k = 0; k < after.threads.size(); ++k) {
          if (after.threads[k].asleep != 1 + op.value) continue;
          machine_state woken = after;
          woken.threads[k].asleep = 0;
          reach(woken);
          found = true;
        }
        if (found) return true;
        break;
      }
    }
    reach(after);
    return true;
  }

  const std::vector<program> programs_;
  const invariant holds_;
  std::set<machine_state> seen_;
  std::vector<machine_state> open_;
  std::size_t stuck_ = 0, violations_ = 0, ends_ = 0;
};

}  // namespace support
