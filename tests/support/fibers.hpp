// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Fibers: functions with stacks of their own that suspend themselves and are resumed by their host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include <setjmp.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#else
inline void __sanitizer_start_switch_fiber(void**, const void*, std::size_t) {}
inline void __sanitizer_finish_switch_fiber(void*, const void**, std::size_t*) {}
#endif

namespace support::fibers {

/// The saved context of a fiber or of the host.
struct saved_context {
  ucontext_t first{};  // the entry point; zero for the host, whose stack ASan reads
  jmp_buf resume;
  bool started = false;
};

/// Saves `from` and continues `to`. Long jumps make no system call, which would be most of the
/// time; AddressSanitizer supports only contexts.
inline void switch_context(saved_context& from, saved_context& to) {
#if defined(__SANITIZE_ADDRESS__)
  swapcontext(&from.first, &to.first);
#else
  if (_setjmp(from.resume) != 0) return;
  from.started = true;
  if (to.started) _longjmp(to.resume, 1);
  setcontext(&to.first);
#endif
}

/// Stacks of this host thread's finished fibers, reused by its next launch: page faults on new
/// memory were two fifths of an emulated small network's time.
inline thread_local std::vector<std::unique_ptr<std::byte[]>> free_stacks;

/// This host thread's own context while a fiber runs.
inline thread_local saved_context host;

/// A function that is called again each time it has returned.
class fiber {
 public:
  static constexpr std::size_t stack_bytes = 64 * 1024;
  using function = void (*)(void* argument, int index);

  fiber() = default;
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;
  ~fiber() {
#if !defined(__SANITIZE_ADDRESS__)  // which tracks the objects of each stack
    if (stack_) free_stacks.push_back(std::move(stack_));
#endif
  }

  [[nodiscard]] const void* stack() const { return stack_.get(); }

  /// Runs f(argument, index), or what is left of it, until it is suspended or has returned. Throws
  /// what f throws. Returns whether f has returned.
  bool resume(function f, void* argument, int index) {
    f_ = f;
    argument_ = argument;
    index_ = index;
    if (!stack_) start();
    __sanitizer_start_switch_fiber(&host_shadow_, stack_.get(), stack_bytes);
    switch_context(host, own_);
    __sanitizer_finish_switch_fiber(host_shadow_, nullptr, nullptr);
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
    return returned_;
  }
  /// Called by f: returns when it is resumed.
  void suspend() {
    __sanitizer_start_switch_fiber(&shadow_, host_stack_, host_size_);
    switch_context(own_, host);
    __sanitizer_finish_switch_fiber(shadow_, &host_stack_, &host_size_);
  }

 private:
  void start() {
    if (free_stacks.empty()) {
      stack_ = std::make_unique_for_overwrite<std::byte[]>(stack_bytes);
    } else {
      stack_ = std::move(free_stacks.back());
      free_stacks.pop_back();
    }
    getcontext(&own_.first);
    own_.first.uc_stack = {stack_.get(), 0, stack_bytes};
    own_.first.uc_link = nullptr;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&own_.first, reinterpret_cast<void (*)()>(&fiber::serve), 2,
                static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
  }
  static void serve(unsigned high, unsigned low) {
    auto& self = *reinterpret_cast<fiber*>(std::uintptr_t{high} << 32 | low);
    __sanitizer_finish_switch_fiber(nullptr, &self.host_stack_, &self.host_size_);
    for (;;) {
      self.returned_ = false;
      try {
        self.f_(self.argument_, self.index_);
      } catch (...) {
        self.thrown_ = std::current_exception();
      }
      self.returned_ = true;
      self.suspend();
    }
  }

  saved_context own_;
  std::unique_ptr<std::byte[]> stack_;
  function f_ = nullptr;
  void* argument_ = nullptr;
  int index_ = 0;
  bool returned_ = false;
  std::exception_ptr thrown_;
  void* shadow_ = nullptr;  // AddressSanitizer's, here and below
  void* host_shadow_ = nullptr;
  const void* host_stack_ = nullptr;
  std::size_t host_size_ = 0;
};

}  // namespace support::fibers
