// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Tests over ranks as threads: a deadline on every wait, and assertions from all ranks.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <deque>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/threads.hpp>

namespace support {

using namespace cordee;

inline constexpr std::array rank_counts{1, 2, 3, 4, 5, 8};

/// Long enough for a sanitizer on a busy machine, short enough to be a failure and not a hang.
inline constexpr threads::options patient{.deadline = std::chrono::seconds(30)};

/// f(link) on each rank, its result by rank. (A deque: ranks write side by side, bits do not bear
/// it.)
template <class F>
auto on_ranks(int ranks, const F& f, threads::options with = patient) {
  std::deque<decltype(f(std::declval<threads>()))> results(static_cast<std::size_t>(ranks));
  threads::launch(
      ranks, [&](threads link) { results[static_cast<std::size_t>(link.rank())] = f(link); }, with);
  return results;
}

/// What a rank that must fail said; empty if it did not.
template <class F>
std::string complaint(const F& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

/// Where a rank is stuck until another one has given up: however busy the machine, no sooner.
class crevasse {
 public:
  /// What the others do. One that throws has given up.
  template <class F>
  void beside(const F& f) {
    try {
      f();
    } catch (...) {
      given_up_ = true;
      throw;
    }
  }
  void fall() const {
    for (int k = 0; k < 6000 && !given_up_; ++k)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }

 private:
  std::atomic<bool> given_up_{false};
};

inline bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

/// |x - y| <= tolerance * max(1, |y|)
inline bool close(double x, double y, double tolerance) {
  return std::abs(x - y) <= tolerance * std::max(1.0, std::abs(y));
}

}  // namespace support
