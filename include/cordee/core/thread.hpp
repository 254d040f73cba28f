// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Threads of POSIX: what the library uses of <thread>, which since C++20 includes stop tokens,
// semaphores and more (docs/compile_time.md).
#pragma once

#include <cstring>
#include <exception>
#include <utility>

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <cordee/core/concat.hpp>
#include <cordee/core/config.hpp>
#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI::detail::core {

/// As std::thread: movable; one that is joinable ends the program when it is destroyed.
class thread {
 public:
  thread() = default;
  /// Calls run(object). @throws error if no thread can be started.
  [[gnu::cold, gnu::noinline]] thread(void* (*run)(void*), void* object) : joinable_(true) {
    if (const int failure = pthread_create(&id_, nullptr, run, object))
      throw error(concat("no thread can be started: ", std::strerror(failure),
                         "; is the limit of processes reached (ulimit -u), or of memory?"));
  }
  thread(thread&& other) noexcept : id_(other.id_), joinable_(other.joinable_) {
    other.joinable_ = false;
  }
  thread& operator=(thread&& other) noexcept {
    if (joinable_) std::terminate();
    id_ = other.id_;
    joinable_ = std::exchange(other.joinable_, false);
    return *this;
  }
  ~thread() {
    if (joinable_) std::terminate();
  }

  [[nodiscard]] bool joinable() const { return joinable_; }
  /// Blocks until it has ended. Requires joinable().
  void join() {
    pthread_join(id_, nullptr);
    joinable_ = false;
  }

 private:
  pthread_t id_{};
  bool joinable_ = false;
};

// No lambda: nvcc would treat it as constexpr and so compile it for the device too.
template <auto Run, class T>
void* run_member(void* object) noexcept {
  (static_cast<T*>(object)->*Run)();
  return nullptr;
}

/// A thread that calls (object.*Run)(). Requires that `object` outlives it; an exception that
/// leaves `Run` terminates the program.
template <auto Run, class T>
[[nodiscard]] thread start_thread(T& object) {
  return {run_member<Run, T>, &object};
}

inline void yield() noexcept { sched_yield(); }
/// Cores that this thread may run on: those of its affinity mask, which taskset and cpusets
/// set. At least 1.
[[gnu::cold]] inline int core_count() {
#if defined(CPU_COUNT)
  cpu_set_t allowed;  // fails with more than 1,024 cores
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
#endif
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  return cores < 1 ? 1 : static_cast<int>(cores);
}

}  // namespace cordee::inline CORDEE_ABI::detail::core
