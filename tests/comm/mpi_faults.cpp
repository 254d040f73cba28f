// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A run that goes wrong as it is told; mpi_faults.cmake looks at how it ends. A ring of means, one
// after another, of which the last rank spoils the third; where it falls silent they are those of a
// trainer, whose steps and buckets the report is to name.
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <cordee/comm/agree.hpp>
#include <cordee/comm/mpi.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/server.hpp>
#include <cordee/optim/local.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/quadratic.hpp"

using namespace cordee;

namespace {

// As much as mpi::launch does at first with nobody else, and no more.
void begin_and_no_more(std::chrono::milliseconds deadline) {
  std::array<MPI_Comm, lane_count + 1> lanes;
  std::array<MPI_Request, lane_count + 1> made;
  for (std::size_t k = 0; k < lanes.size(); ++k) MPI_Comm_idup(MPI_COMM_WORLD, &lanes[k], &made[k]);
  MPI_Waitall(lane_count + 1, made.data(), MPI_STATUSES_IGNORE);
  std::this_thread::sleep_for(deadline * 100);
}

void means(const mpi& link, const std::string& fault) {
  std::vector<double> x(1000, link.rank());
  for (int k = 0; k < 6; ++k) {
    if (k == 3 && link.rank() == link.size() - 1) {
      if (fault == "throw") throw error("the sensor fell off");
      if (fault == "kill") std::raise(SIGKILL);
      if (fault == "short") x.resize(999);
      if (fault == "leave") return;
    }
    agree(link, x, sum{});
  }
}

// The last rank falls silent in its fourth step; or the first one, which serves.
template <class Rule, class R>
void steps(const Rule& rule, const R& reducer, int silent, const std::string& fault,
           std::chrono::milliseconds deadline) {
  support::quadratic<fp64> model;
  trainer run{model, rule, [](double) { return 0.01; }, reducer};
  for (int k = 0; k < 6; ++k) {
    if (k == 3 && run.link().rank() == silent) {
      if (fault == "delay") std::this_thread::sleep_for(deadline * 3 / 2);
      if (fault == "stuck") std::this_thread::sleep_for(deadline * 100);
      if (fault.starts_with("stop")) std::raise(SIGSTOP);
    }
    run.step(std::array{support::one_each(run.link().size())}, k);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string fault = argc > 1 ? argv[1] : "none";
  const std::chrono::milliseconds deadline(argc > 2 ? std::atoi(argv[2]) : 1000);
  try {
    const standing here = detail::mpi_session::begin();
    if (fault == "begin" && here.rank == here.size - 1) begin_and_no_more(deadline);
    mpi::launch(
        [&](mpi link) {
          if (fault == "stop_server")
            steps(local{sgd{}, 1}, server{link, asynchronous{.bound = 0}}, 0, fault, deadline);
          else if (fault == "delay" || fault == "stuck" || fault == "stop")
            steps(sgd{}, ring{link}, link.size() - 1, fault, deadline);
          else
            means(link, fault);
        },
        {.deadline = deadline});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return EXIT_FAILURE;
  }
  std::puts("all is well");
}
