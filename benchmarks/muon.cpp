// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Muon's step of ResNet-50's 52 matrices, by one rank and divided among ranks, which are threads of
// one worker each. Timed is the step with the exchange of its updates, by the slowest rank:
// seconds, and seconds of its processor, which other programs lengthen less. Figures are minima
// over repetitions. benchmarks/torch_muon.py steps on the same matrices in PyTorch.
#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <vector>

#include <time.h>

#include <cordee/comm/transports/threads.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/train/muon/muon.hpp>

#include "benchmarks/options.hpp"
#include "benchmarks/resnet50_table.hpp"

namespace {

using namespace cordee;

constexpr const char* usage =
    "muon: a step of Muon on ResNet-50's matrices, divided among ranks\n"
    "  --reps N      repetitions, minima are printed   (3)\n"
    "  --ranks N     ranks, threads of this process    (2)\n"
    "  --help        this\n";

/// Convolutions but the first, as matrices; the classifier is none.
std::vector<segment> matrices() {
  std::vector<segment> table;
  std::size_t end = 0;
  const auto all = bench::resnet50_table();
  for (std::size_t k = 1; k + 1 < all.size(); ++k)
    if (all[k].kind == kind::weight && all[k + 1].kind == kind::scale) {
      const auto rows = static_cast<int>(all[k + 1].size);
      const int columns = static_cast<int>(all[k].size) / rows;
      table.push_back({"", kind::weight, end, all[k].size, {rows, columns, 0, 0}});
      end += detail::core::align_up(all[k].size);
    }
  return table;
}

double processor_now() {  // of this thread
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct seconds {
  double wall = std::numeric_limits<double>::infinity(), processor = wall;
};

seconds of_step(int ranks, int reps) {
  seconds best;
  threads::launch(ranks, [&](threads comm) {
    const std::vector<segment> table = matrices();
    const std::size_t n = table.back().offset + detail::core::align_up(table.back().size);
    std::vector<float> w(n), g(n), m(n), v(n);
    const optimizer_view<float, cpu, 2> view{
        {w.data(), n}, {g.data(), n}, {{{m.data(), n}, {v.data(), n}}}, table};
    const muon<adamw> optimizer{adamw{}, {.first_layer = "", .classifier = ""}};
    detail::train::muon_division<float, threads> division(optimizer, comm, table, table);
    for (int rep = 0; rep < reps; ++rep) {
      auto random = static_cast<std::uint32_t>(rep);
      for (float& one : g)
        one = static_cast<float>((random = random * 1664525u + 1013904223u) >> 8) / 0x1p23f - 1;
      std::array<double, 2> slowest{};
      allreduce_host(comm, slowest, reduce_op::sum);  // begin together
      const double begin = bench::now(), processor = processor_now();
      division.accept(optimizer, view, {.learning_rate = 0.02}, cpu::stream{});
      slowest = {bench::now() - begin, processor_now() - processor};
      allreduce_host(comm, slowest, reduce_op::max);
      if (comm.rank() == 0)
        best = {std::min(best.wall, slowest[0]), std::min(best.processor, slowest[1])};
    }
  });
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  int reps = 3, ranks = 2;
  bench::read_options(argc, argv, usage, {{"--reps", &reps}, {"--ranks", &ranks}});
  const seconds alone = of_step(1, reps), divided = of_step(ranks, reps);
  std::printf(
      "{\"matrices\": %zu, \"one rank, s\": %.3f, \"its processor, s\": %.3f, \"ranks\": %d, "
      "\"divided, s\": %.3f, \"slowest processor, s\": %.3f}\n",
      matrices().size(), alone.wall, alone.processor, ranks, divided.wall, divided.processor);
}
