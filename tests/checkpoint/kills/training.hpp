// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A run that saves without pause and is killed, as threads (kill_saves.cpp) and over MPI
// (ranks.cpp), and what it shows to the process that kills it.
#pragma once

#include <array>
#include <atomic>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cordee/checkpoint/checkpoint.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/io/file.hpp>
#include <cordee/optim/sgd.hpp>

#include "tests/checkpoint/labelled.hpp"

namespace kills {

using namespace cordee;

inline constexpr int ranks = 2, interval = 2, keep = 2;

/// In a file that all processes map: what a killed process has written stays.
struct progress {
  std::atomic<std::int64_t> step{0};                // completed
  std::array<std::atomic<pid_t>, ranks> process{};  // of each rank
};

/// Maps the file `path`, which it creates. Never unmapped.
inline progress& map_progress(const std::string& path) {
  const detail::io::descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file.is_open() || ::ftruncate(file.number(), sizeof(progress)) != 0)
    throw error(concat("cannot make ", path));
  void* const memory =
      ::mmap(nullptr, sizeof(progress), PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
  if (memory == MAP_FAILED) throw error(concat("cannot map ", path));
  return *static_cast<progress*>(memory);  // zeros are one
}

struct reporter {
  progress* shown;
  void step(const step_record& r) { shown->step = r.info.step + 1; }
};

/// Goes on from the newest checkpoint in `runs` for `steps` steps, with a save every `interval`.
void train(const auto& comm, const std::string& runs, std::int64_t steps, progress& shown) {
  support::labelled<fp32> model;
  trainer run{model, sgd{.momentum = 0.9}, support::falling, ring{comm}};
  auto feed = support::labelled_feed(comm);
  run.resume(runs);
  shown.process[static_cast<std::size_t>(comm.rank())] = ::getpid();
  run.fit(feed, feed.epoch(steps), reporter{&shown},
          checkpoint{.folder = runs, .every = {.steps = interval}, .keep = keep});
}

}  // namespace kills
