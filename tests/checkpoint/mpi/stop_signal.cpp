// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Run by mpirun, with a folder: SIGTERM to one process. All ranks save the same step and stop; what
// is resumed from it ends with the bits of an uninterrupted run, on every rank.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <cordee/checkpoint/checkpoint.hpp>
#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/transports/mpi.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/train/measure/evaluate.hpp>

#include "tests/checkpoint/labelled.hpp"

using namespace cordee;

namespace {

/// The last rank's process gets SIGTERM after update 4.
struct signal_sender {
  template <class Run>
  bool step_on_all_ranks(Run& run, double /*epoch*/) {
    if (run.comm().rank() == run.comm().size() - 1 && run.steps_taken() == 4) std::raise(SIGTERM);
    return false;
  }
};

/// Throws error, on every rank, unless `holds` on all.
void require(const mpi& comm, bool holds, const char* what) {
  std::array<double, 1> least{holds ? 1.0 : 0.0};
  allreduce_host(comm, least, reduce_op::min);
  if (least[0] < 1) throw error(concat("not on all ranks: ", what));
}

void stop_and_resume(const mpi& comm, const std::string& folder) {
  const auto train = [&](auto&&... callbacks) {
    support::labelled<fp32> model;
    trainer run{model, sgd{.momentum = 0.9}, support::falling, compressed{ring{comm}, fp16{}}};
    auto feed = support::labelled_feed(comm);
    if constexpr (sizeof...(callbacks) > 0) run.resume(folder);
    const run_summary done = run.fit(feed, 3, callbacks...);
    return std::pair{done, std::vector<float>(run.weights().begin(), run.weights().end())};
  };
  const checkpoint_interval every{.steps = 100};
  const auto uninterrupted = train();
  const auto stopped = train(signal_sender{}, checkpoint{.folder = folder, .every = every});
  require(comm, stopped.first.stopped && stopped.first.steps == 4, "stopped after update 4");
  require(comm, std::filesystem::read_symlink(folder + "/latest") == "step-00000004",
          "saw the checkpoint of update 4 when fit returned");
  const auto resumed = train(checkpoint{.folder = folder, .every = every});
  require(comm, !resumed.first.stopped && resumed.first.steps == 11 - 4, "made the other updates");
  require(comm, resumed.second == uninterrupted.second, "ended with the same weights");
  if (comm.rank() == 0)
    std::printf("%d ranks stopped after update 4, and ended with the same bits\n", comm.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    mpi::launch([&](mpi comm) { stop_and_resume(comm, argv[1]); });
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return EXIT_FAILURE;
  }
}
