// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The steady clock as a number, for what does not need durations (core/clock.hpp).
#pragma once

#include <cstdint>
#include <ctime>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::core {

/// Nanoseconds of the clock that std::chrono::steady_clock reads.
[[gnu::noinline]] inline std::int64_t steady_nanoseconds() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}
/// Such a time, or a span of it, for POSIX.
[[gnu::cold]] inline timespec timespec_of(std::int64_t nanoseconds) noexcept {
  return {static_cast<std::time_t>(nanoseconds / 1'000'000'000),
          static_cast<long>(nanoseconds % 1'000'000'000)};
}

}  // namespace cordee::inline CORDEE_ABI::detail::core
