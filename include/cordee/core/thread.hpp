// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Starts a thread on a member function, with one instantiation of std::thread's constructor for all
// of them: each costs a program a tenth of a second to compile.
#pragma once

#include <thread>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::core {

[[gnu::noinline]] inline std::thread start_thread(void (*run)(void*), void* object) {
  return std::thread(run, object);
}
// No lambda: nvcc would treat it as constexpr and so compile it for the device too.
template <auto Run, class T>
void run_member(void* object) {
  (static_cast<T*>(object)->*Run)();
}

/// A thread that calls (object.*Run)(). Requires that `object` outlives it; an exception that
/// leaves `Run` terminates the program.
template <auto Run, class T>
[[nodiscard]] std::thread start_thread(T& object) {
  return start_thread(run_member<Run, T>, &object);
}

}  // namespace cordee::inline CORDEE_ABI::detail::core
