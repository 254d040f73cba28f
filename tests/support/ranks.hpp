// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Tests over ranks as threads: a deadline for every wait, and results of all ranks.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/threads.hpp>

namespace support {

using namespace cordee;

inline constexpr std::array rank_counts{1, 2, 3, 4, 5, 8};

/// Long enough for a sanitizer on a busy machine, short enough to be a failure and not a hang.
inline constexpr threads::options long_deadline{.deadline = std::chrono::seconds(30)};

/// f(comm) on each rank; the results by rank. (A deque: ranks write concurrently, which the bits of
/// a std::vector<bool> do not allow.)
template <class F>
auto on_ranks(int ranks, const F& f, threads::options o = long_deadline) {
  std::deque<decltype(f(std::declval<threads>()))> results(static_cast<std::size_t>(ranks));
  threads::launch(
      ranks, [&](threads comm) { results[static_cast<std::size_t>(comm.rank())] = f(comm); }, o);
  return results;
}

/// The mean of the vectors x(rank), computed in double.
template <class X>
std::vector<double> mean_over(int ranks, const X& x) {
  std::vector<double> mean;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto own = x(rank);
    mean.resize(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) mean[i] += static_cast<double>(own[i]) / ranks;
  }
  return mean;
}

/// The message of the exception that f throws; empty if it throws none.
template <class F>
std::string error_message(const F& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

/// A rank that is stuck until another one has failed, however long that takes on a busy machine.
class stuck_rank {
 public:
  /// f() on another rank; its exception ends block().
  template <class F>
  void run_peer(const F& f) {
    try {
      f();
    } catch (...) {
      peer_failed_ = true;
      throw;
    }
  }
  void block() const {
    for (int k = 0; k < 6000 && !peer_failed_; ++k)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }

 private:
  std::atomic<bool> peer_failed_{false};
};

/// What f(comm) throws on rank 1 of two after it has thrown on rank 0, which catches it and stays:
/// its text, or that of the deadline where rank 0 does not abort the run.
template <class F>
std::string error_at_peer(const F& f) {
  stuck_rank first;
  std::string message;
  (void)error_message([&] {
    threads::launch(2,
                    [&](threads comm) {
                      if (comm.rank() == 1) {
                        message = error_message([&] { first.run_peer([&] { f(comm); }); });
                      } else {
                        CHECK_THROWS(f(comm));
                        first.block();
                      }
                    },
                    {.deadline = std::chrono::seconds(2)});
  });
  return message;
}

inline bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

/// |x - y| <= tolerance * max(1, |y|)
inline bool close(double x, double y, double tolerance) {
  return std::abs(x - y) <= tolerance * std::max(1.0, std::abs(y));
}

}  // namespace support
