// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The same mean by MPI_Allreduce and a division, over processes: what all_reduce.cpp is held to.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <vector>

#include <mpi.h>

#include "benchmarks/all_reduce.hpp"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int reps = argc > 1 ? std::atoi(argv[1]) : 30;
  const std::size_t largest = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 100'000'000;

  for (const std::size_t bytes : benchmark::sizes) {
    if (bytes > largest) continue;
    std::vector<float> x(bytes / sizeof(float), static_cast<float>(rank));
    const int inner = benchmark::calls_in_a_row(bytes);
    const auto mean = [&] {
      MPI_Allreduce(MPI_IN_PLACE, x.data(), static_cast<int>(x.size()), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
      for (float& v : x) v /= static_cast<float>(ranks);
    };
    double least = std::numeric_limits<double>::max();
    for (int k = 0; k < reps; ++k) {
      mean();
      const double start = MPI_Wtime();
      for (int i = 0; i < inner; ++i) mean();
      double took = MPI_Wtime() - start, slowest = took;
      MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      least = std::min(least, 1e6 * slowest / inner);
    }
    if (rank == 0) benchmark::print("mpi", ranks, bytes, least);
  }
  MPI_Finalize();
}
