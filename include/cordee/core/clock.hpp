// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// std::chrono's durations and steady clock without <chrono>, which since C++20 includes calendars
// and with them streams and locales (docs/compile_time.md). <mutex> declares them.
#pragma once

#include <mutex>

#include <cordee/core/config.hpp>

static_assert(std::chrono::steady_clock::is_steady);
