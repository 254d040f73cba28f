// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The mean over processes by MPI_Allreduce and a division (mpi), with which all_reduce.cpp is
// compared too, the sum alone (mpi_sum), and the mean by our reducers over the transport mpi.
// Minima over interleaved repetitions of one run; a repetition lasts as long as its slowest rank.
// Both sides divide by the library's pass. The bar: a reducer takes at most 1.10 of the time of
// `mpi`. The ratio to the sum alone, which does less, is printed too.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include <cordee/comm/mpi.hpp>
#include <cordee/comm/reducers/butterfly.hpp>
#include <cordee/comm/reducers/double_tree.hpp>
#include <cordee/comm/reducers/halving_doubling.hpp>
#include <cordee/comm/reducers/hierarchical.hpp>
#include <cordee/comm/reducers/hybrid.hpp>
#include <cordee/comm/reducers/one_shot.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/server.hpp>
#include <cordee/comm/reducers/torus_ring.hpp>
#include <cordee/comm/reducers/tree.hpp>
#include <cordee/comm/reducers/two_shot.hpp>
#include <cordee/ops/cpu/elementwise.hpp>

#include "benchmarks/all_reduce.hpp"

using namespace cordee;

namespace {

void measure(const mpi& comm, std::size_t bytes, int reps, const std::string& methods) {
  const int ranks = comm.size(), inner = benchmark::calls_per_timing(bytes);
  std::vector<float> x(bytes / sizeof(float), static_cast<float>(comm.rank()));
  std::vector<std::byte> scratch;
  benchmark::least_times least;

  const auto timed = [&](const char* method, const auto& mean) {
    mean();  // synchronises the ranks, touches the memory
    const double start = MPI_Wtime();
    for (int i = 0; i < inner; ++i) mean();
    double time = MPI_Wtime() - start, slowest = time;
    MPI_Allreduce(&time, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    least.add(method, 1e6 * slowest / inner);
  };
  const auto timed_reducer = [&](const char* method, const auto& reducer) {
    if (!benchmark::contains(methods, method)) return;
    timed(method, [&] { benchmark::mean_with(reducer, x, scratch); });
  };
  const auto sum = [&] {
    MPI_Allreduce(MPI_IN_PLACE, x.data(), static_cast<int>(x.size()), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
  };
  for (int k = 0; k < reps; ++k) {
    timed("mpi", [&] {
      sum();
      divide(x.size(), static_cast<float>(ranks), x.data(), cpu::stream{});
    });
    std::fill(x.begin(), x.end(), 0.0f);  // sums of sums stay finite
    timed("mpi_sum", sum);
    timed_reducer("ring/mpi", ring{comm});
    timed_reducer("halving_doubling/mpi", halving_doubling{comm});
    timed_reducer("tree/mpi", tree{comm});
    timed_reducer("butterfly/mpi", butterfly{comm});
    timed_reducer("one_two_shot/mpi", hybrid{one_shot{comm}, two_shot{comm}, 1u << 10});
    timed_reducer("hierarchical/mpi",
                  hierarchical{comm, nodes{2}});  // as if two ranks shared a host
    timed_reducer("torus_ring/mpi", torus_ring{comm});
    timed_reducer("double_tree/mpi", double_tree{comm});
    timed_reducer("hybrid/mpi", hybrid{butterfly{comm}, halving_doubling{comm}});
    timed_reducer("server/mpi", server{comm});  // the synchronous one, an exact mean
  }
  if (comm.rank() != 0) return;
  const double mean = least.begin()->second, sum_alone = std::next(least.begin())->second;
  for (const auto& [method, us] : least) {
    char ratios[64];
    std::snprintf(ratios, sizeof ratios, ", of mpi %.2f, of mpi_sum %.2f", us / mean,
                  us / sum_alone);
    benchmark::print(method.c_str(), ranks, bytes, us, ratios);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t bytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000;
  const int reps = argc > 2 ? std::atoi(argv[2]) : 30;
  const std::string methods = argc > 3 ? argv[3] : "";  // "ring/mpi,server/mpi"
  mpi::launch([&](mpi comm) { measure(comm, bytes, reps, methods); });
}
