// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// std::chrono's durations and steady clock without <chrono>, which since C++20 includes calendars
// and with them streams and locales (docs/compile_time.md).
#pragma once

#include <cerrno>
#include <ctime>
#if __has_include(<bits/chrono.h>)
#include <bits/chrono.h>
#else
#include <mutex>  // declares them
#endif

#include <cordee/core/config.hpp>
#include <cordee/core/steady_time.hpp>

static_assert(std::chrono::steady_clock::is_steady);

namespace cordee::inline CORDEE_ABI::detail::core {

[[gnu::cold]] inline void sleep_for(std::chrono::nanoseconds time) {
  if (time.count() <= 0) return;
  timespec left = timespec_of(time.count());
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

}  // namespace cordee::inline CORDEE_ABI::detail::core
