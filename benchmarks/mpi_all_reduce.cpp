// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The mean over processes by MPI_Allreduce and a division, which all_reduce.cpp is held to as well,
// the sum alone (mpi_sum), and the mean by our reducers over the transport mpi: minima over
// interleaved repetitions of one run, one of which lasts as long as its slowest rank.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <vector>

#include <cordee/comm/all_to_all.hpp>
#include <cordee/comm/butterfly.hpp>
#include <cordee/comm/halving.hpp>
#include <cordee/comm/mpi.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/tree.hpp>

#include "benchmarks/all_reduce.hpp"

using namespace cordee;

namespace {

void measure(const mpi& link, std::size_t bytes, int reps) {
  const int ranks = link.size(), inner = benchmark::calls_in_a_row(bytes);
  std::vector<float> x(bytes / sizeof(float), static_cast<float>(link.rank()));
  std::vector<std::byte> scratch;
  static constexpr std::array names{"mpi",      "mpi_sum",       "ring/mpi",      "halving/mpi",
                                    "tree/mpi", "butterfly/mpi", "all_to_all/mpi"};
  std::array<double, names.size()> least;
  least.fill(std::numeric_limits<double>::max());

  const auto timed = [&](std::size_t method, const auto& mean) {
    mean();  // ranks begin together, memory is there
    const double start = MPI_Wtime();
    for (int i = 0; i < inner; ++i) mean();
    double took = MPI_Wtime() - start, slowest = took;
    MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    least[method] = std::min(least[method], 1e6 * slowest / inner);
  };
  const auto ours = [&](std::size_t method, const auto& reducer) {
    scratch.resize(std::max(scratch.size(), reducer.template scratch<float>(x.size())));
    timed(method, [&] {
      reducer.mix(
          message<float, cpu, 0>{
              nullptr, {x.data(), x.size()}, {}, {scratch.data(), scratch.size()}},
          moment{}, cpu::stream{});
    });
  };
  for (int k = 0; k < reps; ++k) {
    timed(0, [&] {
      MPI_Allreduce(MPI_IN_PLACE, x.data(), static_cast<int>(x.size()), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
      for (float& v : x) v /= static_cast<float>(ranks);
    });
    std::fill(x.begin(), x.end(), 0.0f);  // sums of sums stay finite
    timed(1, [&] {
      MPI_Allreduce(MPI_IN_PLACE, x.data(), static_cast<int>(x.size()), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
    });
    ours(2, ring{link});
    ours(3, halving{link});
    ours(4, tree{link});
    ours(5, butterfly{link});
    ours(6, all_to_all{link});
  }
  for (std::size_t m = 0; link.rank() == 0 && m < names.size(); ++m)
    benchmark::print(names[m], ranks, bytes, least[m]);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t bytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000;
  const int reps = argc > 2 ? std::atoi(argv[2]) : 30;
  mpi::launch([&](mpi link) { measure(link, bytes, reps); });
}
