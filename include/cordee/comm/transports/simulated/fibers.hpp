// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Fibers of one thread, resumed in the order in which they became ready, the same in each run. Each
// has its own exceptions in flight: a destructor that runs while one unwinds may switch.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cxxabi.h>

#include <cordee/comm/failure/error_context.hpp>
#include <cordee/core/config.hpp>
#include <cordee/core/trace.hpp>

// Defined in programs under AddressSanitizer, which needs the stack's bounds.
extern "C" {
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void*, std::size_t);
[[gnu::weak]] void __sanitizer_start_switch_fiber(void** frames, const void* stack, std::size_t);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void* frames, const void** old, std::size_t*);
}

namespace cordee::inline CORDEE_ABI::detail::comm {

/// From its construction to its destructor another stack may be switched to.
struct stack_switch {
  stack_switch(const void* stack, std::size_t size) {
    if (__sanitizer_start_switch_fiber != nullptr)
      __sanitizer_start_switch_fiber(&frames, stack, size);
  }
  stack_switch(const stack_switch&) = delete;
  stack_switch& operator=(const stack_switch&) = delete;
  ~stack_switch() { finish(frames, nullptr, nullptr); }

  static void finish(void* frames, const void** old, std::size_t* size) {
    if (__sanitizer_finish_switch_fiber != nullptr)
      __sanitizer_finish_switch_fiber(frames, old, size);
  }

  void* frames = nullptr;
};

class fibers {
 public:
  explicit fibers(std::size_t stack_bytes) : stack_(stack_bytes) {}

  /// Effects: f() will run as the fiber of the number returned: one that was released, or else how
  /// many there are. Requires: f does not throw.
  template <class F>
  std::size_t start(F f) {
    const boost::context::stack_context stack = stack_.allocate();
    const std::byte* const bottom = static_cast<std::byte*>(stack.sp) - stack.size;
    if (__asan_unpoison_memory_region != nullptr)  // of fibers that have left it
      __asan_unpoison_memory_region(bottom, stack.size);
    const std::size_t id = released_.empty() ? all_.size() : released_.back();
    if (id == all_.size())
      all_.emplace_back();
    else
      released_.pop_back();
    all_[id] = {
        boost::context::fiber(std::allocator_arg,
                              boost::context::preallocated(stack.sp, stack.size, stack), stack_,
                              [this, f = std::move(f)](boost::context::fiber&& caller) mutable {
                                const entry_scope scope(*this);
                                caller_ = std::move(caller);
                                f();
                                return std::move(caller_);
                              }),
        bottom, stack.size};
    ready_.push_back(id);
    return id;
  }
  fibers(const fibers&) = delete;
  fibers& operator=(const fibers&) = delete;
  /// Effects: unwinds the fibers that have not ended.
  ~fibers() {
    for (current_ = 0; current_ < all_.size(); ++current_) unwind(all_[current_]);
  }
  /// Effects: another fiber may have the number. Requires: this one has ended.
  void release(std::size_t id) { released_.push_back(id); }
  /// Effects: resumes ready fibers until none is ready.
  void run() {
    while (!ready_.empty()) {
      current_ = ready_.front();
      ready_.pop_front();
      switch_to(all_[current_], [](entry& e) { e.fiber = std::move(e.fiber).resume(); });
    }
  }

  /// The running fiber.
  [[nodiscard]] std::size_t current() const { return current_; }
  /// Effects: the running fiber stops until wake(current()).
  void suspend() {
    const stack_switch scope(caller_stack_, caller_stack_size_);
    caller_ = std::move(caller_).resume();
  }
  /// Requires: the fiber is suspended, and has not been woken yet.
  void wake(std::size_t id) { ready_.push_back(id); }
  /// Effects: unwinds another fiber, if it has not ended, from the running one, which is unwound
  /// itself.
  void unwind(std::size_t id) {
    const std::size_t own = std::exchange(current_, id);
    const auto* const stack = std::exchange(caller_stack_, all_[own].stack);
    const auto size = std::exchange(caller_stack_size_, all_[own].stack_size);
    unwind(all_[id]);
    current_ = own;
    caller_stack_ = stack;
    caller_stack_size_ = size;
  }
  /// f() where errors have the context of a fiber that is not running.
  template <class F>
  auto in_context_of(std::size_t id, const F& f) const {
    const error_context* const own = error_context::exchange_current(all_[id].context);
    auto result = f();
    error_context::exchange_current(own);
    return result;
  }
  /// Effects: lets the other ready fibers run first.
  void yield() {
    wake(current_);
    suspend();
  }

 private:
  /// What the C++ ABI keeps for a thread: the exceptions that are caught, and how many are not.
  using exceptions = std::array<std::byte, 2 * sizeof(void*)>;
  struct entry {
    boost::context::fiber fiber{};
    const std::byte* stack = nullptr;
    std::size_t stack_size = 0;
    // Which are the thread's otherwise:
    const error_context* context = nullptr;
    core::trace_sink* sinks = nullptr;
    fibers::exceptions exceptions{};
  };
  /// The life of a fiber's function.
  struct entry_scope {
    explicit entry_scope(fibers& all) : all_(all) {
      stack_switch::finish(nullptr, &all.caller_stack_, &all.caller_stack_size_);
    }
    entry_scope(const entry_scope&) = delete;
    entry_scope& operator=(const entry_scope&) = delete;
    ~entry_scope() {
      if (__sanitizer_start_switch_fiber != nullptr)
        __sanitizer_start_switch_fiber(nullptr, all_.caller_stack_, all_.caller_stack_size_);
    }
    fibers& all_;
  };

  template <class F>
  static void switch_to(entry& e, const F& f) {
    if (!e.fiber) return;
    const error_context* const outer = error_context::exchange_current(e.context);
    std::swap(core::trace_sinks, e.sinks);
    exchange_exceptions(e.exceptions);
    {
      const stack_switch scope(e.stack, e.stack_size);
      f(e);
    }
    exchange_exceptions(e.exceptions);
    std::swap(core::trace_sinks, e.sinks);
    e.context = error_context::exchange_current(outer);
  }
  static void unwind(entry& e) {
    switch_to(e, [](entry& other) { other.fiber = {}; });
  }
  static void exchange_exceptions(exceptions& other) {
    exceptions own;
    void* const of_thread = abi::__cxa_get_globals();
    std::memcpy(own.data(), of_thread, own.size());
    std::memcpy(of_thread, other.data(), own.size());
    other = own;
  }

  boost::context::protected_fixedsize_stack stack_;
  std::deque<entry> all_;
  std::deque<std::size_t> ready_;
  std::vector<std::size_t> released_;
  std::size_t current_ = 0;
  boost::context::fiber caller_;
  const void* caller_stack_ = nullptr;
  std::size_t caller_stack_size_ = 0;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
