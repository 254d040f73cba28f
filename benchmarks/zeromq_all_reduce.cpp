// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The mean over processes of this machine by reducers over ZeroMQ, at the loopback, to compare with
// all_reduce.cpp (threads) and mpi_all_reduce.cpp: minima over interleaved repetitions, where one
// repetition lasts as long as its slowest rank. `server` is a parameter server: every worker pushes
// its numbers to rank 0, and pulls the mean.
//
//   bench_zeromq_all_reduce [RANKS [BYTES [REPS [METHODS]]]]      it forks the other ranks itself
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <cordee/comm/reducers/halving_doubling.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/server.hpp>
#include <cordee/comm/zeromq.hpp>

#include "benchmarks/all_reduce.hpp"

using namespace cordee;

namespace {

void measure(const zeromq& comm, std::size_t bytes, int reps, const std::string& methods) {
  const int inner = benchmark::calls_per_timing(bytes);
  std::vector<float> x(bytes / sizeof(float), static_cast<float>(comm.rank()));
  std::vector<std::byte> scratch;
  benchmark::least_times least;
  const auto timed = [&](const char* method, const auto& reducer) {
    if (!benchmark::contains(methods, method)) return;
    benchmark::time_mean(method, reducer, inner, x, scratch, least);
  };
  for (int k = 0; k < reps; ++k) {
    timed("ring/zeromq", ring{comm});
    timed("halving_doubling/zeromq", halving_doubling{comm});
    timed("server/zeromq", server{comm});
  }
  for (const auto& [method, us] : least) benchmark::print(method.c_str(), comm.size(), bytes, us);
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 4;
  const std::size_t bytes = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1'000'000;
  const int reps = argc > 3 ? std::atoi(argv[3]) : 30;
  const std::string methods = argc > 4 ? argv[4] : "";
  const int port = detail::comm::listener(0, "127.0.0.1").port();  // free a moment later
  int rank = ranks - 1;
  while (rank > 0 && ::fork() != 0) --rank;
  ::setenv("RANK", std::to_string(rank).c_str(), 1);
  ::setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
  ::setenv("MASTER_ADDR", "127.0.0.1", 1);
  ::setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
  int status = 0;
  try {
    zeromq::launch([&](zeromq comm) { measure(comm, bytes, reps, methods); });
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    status = 1;
  }
  while (rank == 0 && ::wait(nullptr) > 0) {
  }
  return status;
}
