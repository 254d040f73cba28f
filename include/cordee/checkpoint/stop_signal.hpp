// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// SIGTERM and SIGUSR1, by which schedulers announce that a job's time is over, and SIGINT, which
// Ctrl-C sends: the first one is a request to stop after a step, and says so; a second one ends the
// process at once.
#pragma once

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <mutex>

#include <signal.h>
#include <unistd.h>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::checkpoints {

/// While one exists, the signals are requests; when the last one of the process is destroyed, they
/// have the effects that they had before.
class stop_signal {
 public:
  stop_signal() {
    const std::scoped_lock lock(mutex());
    if (users()++ > 0) return;
    received() = 0;
    struct sigaction action {};
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    for (std::size_t k = 0; k < numbers.size(); ++k) {
      ::sigaction(numbers[k], &action, &before()[k]);
      // A shell ignores Ctrl-C for what it runs in the background.
      if (numbers[k] == SIGINT && before()[k].sa_handler == SIG_IGN)
        ::sigaction(numbers[k], &before()[k], nullptr);
    }
  }
  stop_signal(const stop_signal&) = delete;
  stop_signal& operator=(const stop_signal&) = delete;
  ~stop_signal() {
    const std::scoped_lock lock(mutex());
    if (--users() > 0) return;
    for (std::size_t k = 0; k < numbers.size(); ++k) ::sigaction(numbers[k], &before()[k], nullptr);
  }

  /// Whether this process has received one.
  [[nodiscard]] static bool requested() { return received() != 0; }

 private:
  static constexpr std::array numbers{SIGTERM, SIGINT, SIGUSR1};

  // Everything here is safe in a signal handler: the atomic is lock-free and is initialized before.
  static void handle(int number) {
    if (received().fetch_add(1) > 0) ::_exit(128 + number);
    if (number != SIGINT) return;  // a person waits for an answer
    constexpr char answer[] =
        "\ncheckpoint: saves after this step and stops; a second Ctrl-C ends the process at once\n";
    const int reason = errno;
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, answer, sizeof answer - 1);
    errno = reason;
  }
  static std::atomic<int>& received() {
    static constinit std::atomic<int> count{0};
    static_assert(std::atomic<int>::is_always_lock_free);
    return count;
  }
  static std::mutex& mutex() {
    static constinit std::mutex m;
    return m;
  }
  static int& users() {
    static constinit int n = 0;
    return n;
  }
  static std::array<struct sigaction, numbers.size()>& before() {
    static std::array<struct sigaction, numbers.size()> actions;
    return actions;
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::checkpoints
