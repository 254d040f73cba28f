// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A run with the fault that its first argument names; mpi_faults.cmake checks how it ends. The
// ranks make reductions, of which the last rank disturbs the fourth; for stalls they are those of a
// trainer, whose step and bucket the error must name.
//
// Each rank prints its process id at the start, so that the check can find ranks that survive.
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/server.hpp>
#include <cordee/comm/transports/mpi.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/quadratic.hpp"

using namespace cordee;
using namespace cordee::detail::comm;

namespace {

// The first collectives of mpi::launch, late, and then nothing.
void start_and_stall(std::chrono::milliseconds deadline) {
  std::this_thread::sleep_for(deadline * 5 / 6);
  std::array<MPI_Comm, context_count + 1> contexts;
  std::array<MPI_Request, context_count + 1> duplicated;
  for (std::size_t k = 0; k < contexts.size(); ++k)
    MPI_Comm_idup(MPI_COMM_WORLD, &contexts[k], &duplicated[k]);
  MPI_Waitall(context_count + 1, duplicated.data(), MPI_STATUSES_IGNORE);
  std::this_thread::sleep_for(deadline * 100);
}

void reduce(const mpi& comm, const std::string& fault) {
  std::vector<double> x(1000, comm.rank());
  for (int k = 0; k < 6; ++k) {
    if (k == 3 && comm.rank() == comm.size() - 1) {
      if (fault == "throw") throw error("sensor failure");
      if (fault.starts_with("kill")) std::raise(SIGKILL);
      if (fault == "short") x.resize(999);
      if (fault == "leave") return;
      if (fault == "exit") std::exit(3);
    }
    allreduce_host(comm, x, reduce_op::sum);
  }
}

// The start has one deadline, however many collectives it makes: ends this process, without the
// message that is expected, when it has not ended long after that.
void start_within(std::chrono::milliseconds deadline) {
  std::thread([=] {
    std::this_thread::sleep_for(deadline * 3 / 2);
    std::fputs("error: the start has not ended at the deadline\n", stderr);
    std::_Exit(EXIT_FAILURE);
  }).detach();
}

// Stops this process, which another one continues.
void pause(std::chrono::milliseconds time) {
  const pid_t self = ::getpid();
  std::array<char, 100> command;
  std::snprintf(command.data(), command.size(), "(sleep %.3f; kill -CONT %d) &",
                std::chrono::duration<double>(time).count(), static_cast<int>(self));
  if (std::system(command.data()) == 0) std::raise(SIGSTOP);
}

// Rank `stalled` stalls in its fourth step: the last one, or rank 0, which serves.
template <class Optimizer, class R>
void train(const Optimizer& optimizer, const R& reducer, int stalled, const std::string& fault,
           std::chrono::milliseconds deadline) {
  support::quadratic<fp64> model;
  trainer run{model, optimizer, [](double) { return 0.01; }, reducer};
  for (int k = 0; k < 6; ++k) {
    if (k == 3 && run.comm().rank() == stalled) {
      if (fault == "delay") std::this_thread::sleep_for(deadline * 3 / 2);
      if (fault == "stuck") std::this_thread::sleep_for(deadline * 100);
      if (fault.starts_with("stop")) std::raise(SIGSTOP);
      if (fault == "pause") pause(std::chrono::milliseconds(1200));
    }
    run.step(std::array{support::one_each(run.comm().size())}, k);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string fault = argc > 1 ? argv[1] : "none";
  const std::chrono::milliseconds deadline(argc > 2 ? std::atoi(argv[2]) : 1000);
  try {
    const rank_assignment self = detail::comm::mpi_session::start(deadline);
    std::printf("pid %d\n", static_cast<int>(::getpid()));
    std::fflush(stdout);
    if (fault == "start") {
      if (self.rank == self.size - 1) start_and_stall(deadline);
      start_within(deadline);
    }
    mpi::launch(
        [&](mpi comm) {
          if (fault == "stop_server")
            train(local_steps{sgd{}, 1}, server{comm, asynchronous{.staleness_bound = 0}}, 0, fault,
                  deadline);
          else if (fault == "delay" || fault == "stuck" || fault == "stop" || fault == "pause")
            train(sgd{}, ring{comm}, comm.size() - 1, fault, deadline);
          else
            reduce(comm, fault);
        },
        {.deadline = deadline});
  } catch (const aborted&) {
    return EXIT_FAILURE;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return EXIT_FAILURE;
  }
  std::puts("no failure");
}
