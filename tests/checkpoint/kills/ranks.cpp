// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One rank, a process of MPI, of the run that kill_saves kills: FOLDER STEPS PROGRESS.
#include <cstdio>

#include <cordee/comm/transports/mpi.hpp>

#include "tests/checkpoint/kills/training.hpp"

int main(int argc, char** argv) {
  try {
    if (argc != 4) throw cordee::error("usage: ranks FOLDER STEPS PROGRESS");
    kills::progress& shown = kills::map_progress(argv[3]);
    cordee::mpi::launch(
        [&](cordee::mpi comm) { kills::train(comm, argv[1], std::stoll(argv[2]), shown); },
        {.deadline = std::chrono::seconds(2)});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
}
