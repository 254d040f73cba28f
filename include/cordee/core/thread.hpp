// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Starting a thread on a member function, with one instantiation of std::thread for all of them:
// each costs a program a tenth of a second to compile.
#pragma once

#include <thread>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {
[[gnu::noinline]] inline std::thread start_thread(void (*run)(void*), void* of) {
  return std::thread(run, of);
}
// No lambda: nvcc would take that for constexpr, so for the device's as well.
template <auto Run, class T>
void run_member(void* of) {
  (static_cast<T*>(of)->*Run)();
}
}  // namespace detail

/// A thread that calls (of.*Run)(); `of` must outlive it, and what `Run` throws ends the program.
template <auto Run, class T>
[[nodiscard]] std::thread start(T& of) {
  return detail::start_thread(detail::run_member<Run, T>, &of);
}

}  // namespace cordee::inline CORDEE_ABI
