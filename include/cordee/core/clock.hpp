// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Durations and the steady clock. <mutex> declares them; <chrono> has brought calendars along, and
// with them streams and locales, since C++20: a twentieth of a small program's compile time.
#pragma once

#include <mutex>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail {

using steady_clock = std::chrono::steady_clock;

}  // namespace cordee::inline CORDEE_ABI::detail
