// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks as processes that a test forks, with the environment that torchrun sets.
#pragma once

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>

#include "tests/support/reserved_port.hpp"

namespace support {

/// Of each rank: what f(rank) returned, or "error: " or "aborted: " and what it threw; "signal 9"
/// if one ended it, "stopped" if it stopped itself: it ends when all others have ended. Requires
/// that this process has no other thread. f's text is short (64 KB).
template <class F>
std::vector<std::string> fork_ranks(int ranks, const F& f) {
  const reserved_port master;
  std::vector<pid_t> children;
  std::vector<int> pipes;
  std::fflush(nullptr);
  for (int rank = 0; rank < ranks; ++rank) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) throw std::runtime_error("pipe");
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(120);
      ::setenv("RANK", cordee::concat(rank).c_str(), 1);
      ::setenv("WORLD_SIZE", cordee::concat(ranks).c_str(), 1);
      ::setenv("MASTER_ADDR", "127.0.0.1", 1);
      ::setenv("MASTER_PORT", cordee::concat(master.port).c_str(), 1);
      std::string text;
      try {
        text = f(rank);
      } catch (const cordee::aborted& e) {
        text = cordee::concat("aborted: ", e.what());
      } catch (const std::exception& e) {
        text = cordee::concat("error: ", e.what());
      }
      const bool written = ::write(ends[1], text.data(), text.size()) >= 0;
      std::_Exit(written ? 0 : 1);
    }
    ::close(ends[1]);
    children.push_back(child);
    pipes.push_back(ends[0]);
  }
  // A text fits into its pipe, so no rank waits for its reader. Those that have stopped come last:
  // what the others do about one is over then.
  std::vector<int> statuses;
  for (const pid_t child : children) ::waitpid(child, &statuses.emplace_back(), WUNTRACED);
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < children.size(); ++rank) {
    int& status = statuses[rank];
    const bool stopped = WIFSTOPPED(status);
    if (stopped) {
      ::kill(children[rank], SIGKILL);
      ::waitpid(children[rank], &status, 0);
    }
    std::string text;
    std::array<char, 4096> part{};
    for (ssize_t n; (n = ::read(pipes[rank], part.data(), part.size())) > 0;)
      text.append(part.data(), static_cast<std::size_t>(n));
    ::close(pipes[rank]);
    texts.push_back(stopped               ? "stopped"
                    : WIFSIGNALED(status) ? cordee::concat("signal ", WTERMSIG(status))
                                          : text);
  }
  return texts;
}

}  // namespace support
