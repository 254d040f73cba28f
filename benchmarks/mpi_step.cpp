// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How much of a step over processes the exchange shows: ResNet-20 without an exchange, with buckets
// that travel while backward runs, and with one bucket, which only travels when backward is over.
// Least times over interleaved repetitions of one run; a step lasts as long as its slowest rank.
//
//   exposed = (step with the exchange - step without) / step without
//
//   mpirun -n 2 bench_mpi_step --batch 64
#include <array>
#include <chrono>
#include <cstdio>
#include <limits>

#include <cordee/comm/mpi.hpp>
#include <cordee/cordee.hpp>

#include "examples/options.hpp"

using namespace cordee;

namespace {

using net_type = resnet<20, fp32, cpu, shape{.image = {3, 32, 32}}>;

void measure(const mpi& link, int n, int reps, std::size_t bucket_bytes) {
  const auto size = static_cast<std::size_t>(n);
  std::vector<std::uint8_t> pixels(size * net_type::input.size());
  std::vector<std::int32_t> labels(size);
  random_sequence random(1, purpose::test, static_cast<std::uint64_t>(link.rank()), 0);
  for (auto& p : pixels) p = static_cast<std::uint8_t>(random.bits());
  for (auto& l : labels) l = static_cast<std::int32_t>(random.below(10));
  const auto batch_of = [&](int ranks) {
    return std::array{batch<cpu>{{pixels.data(), pixels.size()},
                                 {labels.data(), size},
                                 n,
                                 static_cast<std::int64_t>(n) * ranks,
                                 ranks,
                                 {}}};
  };
  constexpr auto still = [](double) { return 1e-4; };

  net_type a, b, c;
  trainer quiet{a, sgd{}, still, solo{}};
  trainer buckets{b, sgd{}, still, halving{link}, {.bucket_bytes = bucket_bytes}};
  trainer one{c, sgd{}, still, halving{link}, {.bucket_bytes = 1u << 30}};
  const auto slowest = [&](double x) {
    std::array all{x};
    agree(link, all, maximum{});
    return all[0];
  };
  const auto timed = [&](double& least, auto& run, int ranks) {
    slowest(0);  // ranks begin together
    const auto start = std::chrono::steady_clock::now();
    run.step(batch_of(ranks), 0);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    least = std::min(least, slowest(took.count()));
  };
  double alone = std::numeric_limits<double>::max(), many = alone, single = alone;
  for (int k = 0; k < reps; ++k) {
    timed(alone, quiet, 1);
    timed(many, buckets, link.size());
    timed(single, one, link.size());
  }
  if (link.rank() == 0)
    std::printf(
        "%d processes, batch %d each: without an exchange %.2f ms; %zu buckets %.2f ms, exposed "
        "%.1f %%; one bucket %.2f ms, exposed %.1f %%\n",
        link.size(), n, alone, buckets.buckets().size(), many, 100 * (many / alone - 1), single,
        100 * (single / alone - 1));
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "mpi_step: what a step over processes shows of its exchange");
    const int reps = o.whole("reps", 30, "interleaved repetitions");
    const int n = o.whole("batch", 64, "samples on each rank");
    const int bytes = o.whole("bucket", 1 << 18, "bytes of a bucket at most");
    o.done();
    mpi::launch([&](mpi link) { measure(link, n, reps, static_cast<std::size_t>(bytes)); });
  });
}
