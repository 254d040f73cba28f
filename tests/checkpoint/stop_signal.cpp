// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cordee/checkpoint/stop_signal.hpp>

using cordee::detail::checkpoints::stop_signal;

namespace {

/// The status with which a child process ends that calls f.
template <class F>
int status_of(const F& f) {
  const pid_t child = ::fork();
  if (child == 0) {
    f();
    ::_exit(7);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("stop_signal: the first signal is a request, the second ends the process at once") {
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) {
    const int once = status_of([&] {
      ::signal(number, SIG_DFL);
      const stop_signal signals, others;
      ::raise(number);
      if (!stop_signal::requested()) ::_exit(1);
    });
    CHECK((WIFEXITED(once) && WEXITSTATUS(once) == 7));
    const int twice = status_of([&] {
      ::signal(number, SIG_DFL);
      const stop_signal signals;
      ::raise(number);
      ::raise(number);
    });
    CHECK((WIFEXITED(twice) && WEXITSTATUS(twice) == 128 + number));
    const int afterwards = status_of([&] {
      ::signal(number, SIG_DFL);  // without the test framework's own handler
      { const stop_signal signals; }
      ::raise(number);
    });
    CHECK((WIFSIGNALED(afterwards) && WTERMSIG(afterwards) == number));
  }
  const int ignored = status_of([] {
    ::signal(SIGINT, SIG_IGN);  // as of a command in the background of a script
    const stop_signal signals;
    ::raise(SIGINT);
    ::raise(SIGINT);
    if (stop_signal::requested()) ::_exit(1);
  });
  CHECK((WIFEXITED(ignored) && WEXITSTATUS(ignored) == 7));
  const stop_signal signals;  // a request of before is forgotten
  CHECK_FALSE(stop_signal::requested());
}
