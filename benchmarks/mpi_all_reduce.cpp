// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The mean over processes by MPI_Allreduce and a division (mpi), which all_reduce.cpp is held to as
// well, the sum alone (mpi_sum), and the mean by our reducers over the transport mpi: minima over
// interleaved repetitions of one run, one of which lasts as long as its slowest rank. The division
// is the library's own pass, so both sides divide alike. The bar is the mean beside the mean: ours
// may take 1.10 of `mpi`. What it takes of the sum alone, which does less, stands beside it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <cordee/comm/all_to_all.hpp>
#include <cordee/comm/butterfly.hpp>
#include <cordee/comm/double_tree.hpp>
#include <cordee/comm/halving.hpp>
#include <cordee/comm/hierarchical.hpp>
#include <cordee/comm/hybrid.hpp>
#include <cordee/comm/mpi.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/server.hpp>
#include <cordee/comm/torus_ring.hpp>
#include <cordee/comm/tree.hpp>
#include <cordee/ops/elementwise.hpp>

#include "benchmarks/all_reduce.hpp"

using namespace cordee;

namespace {

void measure(const mpi& link, std::size_t bytes, int reps) {
  const int ranks = link.size(), inner = benchmark::calls_in_a_row(bytes);
  std::vector<float> x(bytes / sizeof(float), static_cast<float>(link.rank()));
  std::vector<std::byte> scratch;
  std::vector<std::pair<std::string, double>> least;  // by method, in the order of their first turn

  const auto timed = [&](const char* method, const auto& mean) {
    mean();  // ranks begin together, memory is there
    const double start = MPI_Wtime();
    for (int i = 0; i < inner; ++i) mean();
    double took = MPI_Wtime() - start, slowest = took;
    MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    const double us = 1e6 * slowest / inner;
    const auto before = std::ranges::find(least, method, &std::pair<std::string, double>::first);
    if (before == least.end())
      least.emplace_back(method, us);
    else
      before->second = std::min(before->second, us);
  };
  const auto ours = [&](const char* method, const auto& reducer) {
    scratch.resize(std::max(scratch.size(), reducer.template scratch<float>(x.size())));
    timed(method, [&] {
      reducer.mix(
          message<float, cpu, 0>{
              nullptr, {x.data(), x.size()}, {}, {scratch.data(), scratch.size()}},
          moment{}, cpu::stream{});
    });
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
    ours("ring/mpi", ring{link});
    ours("halving/mpi", halving{link});
    ours("tree/mpi", tree{link});
    ours("butterfly/mpi", butterfly{link});
    ours("all_to_all/mpi", all_to_all{link});
    ours("hierarchical/mpi", hierarchical{link, nodes{2}});  // as if two ranks shared a machine
    ours("torus_ring/mpi", torus_ring{link});
    ours("double_tree/mpi", double_tree{link});
    ours("hybrid/mpi", hybrid{butterfly{link}, halving{link}});
    ours("server/mpi", server{link});  // the synchronous one, an exact mean
  }
  if (link.rank() != 0) return;
  const double mean = least[0].second, alone = least[1].second;
  for (const auto& [method, us] : least) {
    char shares[64];
    std::snprintf(shares, sizeof shares, ", of mpi %.2f, of mpi_sum %.2f", us / mean, us / alone);
    benchmark::print(method.c_str(), ranks, bytes, us, shares);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t bytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000;
  const int reps = argc > 2 ? std::atoi(argv[2]) : 30;
  mpi::launch([&](mpi link) { measure(link, bytes, reps); });
}
