// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Fibers of one thread, resumed in the order in which they became ready, the same in each run.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>

#include <cordee/comm/error_context.hpp>
#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

class fibers {
 public:
  explicit fibers(std::size_t stack_bytes) : stack_(stack_bytes) {}

  /// Effects: f() will run as fiber number `id`. Requires: f does not throw; ids are 0, 1, 2, ...
  template <class F>
  std::size_t start(F f) {
    const std::size_t id = all_.size();
    all_.push_back({boost::context::fiber(std::allocator_arg, stack_,
                                          [this, f = std::move(f)](boost::context::fiber&& caller) {
                                            caller_ = std::move(caller);
                                            f();
                                            return std::move(caller_);
                                          })});
    ready_.push_back(id);
    return id;
  }
  /// Effects: resumes ready fibers until none is ready.
  void run() {
    while (!ready_.empty()) {
      current_ = ready_.front();
      ready_.pop_front();
      entry& e = all_[current_];
      const error_context* const outer = error_context::exchange_current(e.context);
      e.fiber = std::move(e.fiber).resume();
      e.context = error_context::exchange_current(outer);
    }
  }

  /// The running fiber.
  [[nodiscard]] std::size_t current() const { return current_; }
  /// Effects: the running fiber stops until wake(current()).
  void suspend() { caller_ = std::move(caller_).resume(); }
  /// Requires: the fiber is suspended, and has not been woken yet.
  void wake(std::size_t id) { ready_.push_back(id); }
  /// Effects: lets the other ready fibers run first.
  void yield() {
    wake(current_);
    suspend();
  }

 private:
  struct entry {
    boost::context::fiber fiber;
    const error_context* context = nullptr;  // which is the thread's otherwise
  };

  boost::context::protected_fixedsize_stack stack_;
  std::deque<entry> all_;
  std::deque<std::size_t> ready_;
  std::size_t current_ = 0;
  boost::context::fiber caller_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
