// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The communication time of a step over processes that backward does not hide: ResNet-20 without
// communication, with buckets that are reduced while backward runs, and with one bucket, which is
// reduced after backward. Minima over interleaved repetitions of one run; a step lasts as long as
// its slowest rank.
//
//   exposed = (step with communication - step without) / step without
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

using net_type = resnet<20, fp32, cpu, resnet_options{.image = {3, 32, 32}}>;

void measure(const mpi& comm, int n, int reps, std::size_t bucket_bytes) {
  const auto size = static_cast<std::size_t>(n);
  std::vector<std::uint8_t> pixels(size * net_type::input.size());
  std::vector<std::int32_t> labels(size);
  random_sequence random(1, purpose::test, static_cast<std::uint64_t>(comm.rank()), 0);
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
  constexpr auto small_lr = [](double) { return 1e-4; };

  net_type a, b, c;
  trainer local{a, sgd{}, small_lr, solo{}};
  trainer buckets{b, sgd{}, small_lr, halving_doubling{comm}, {.bucket_bytes = bucket_bytes}};
  trainer single{c, sgd{}, small_lr, halving_doubling{comm}, {.bucket_bytes = 1u << 30}};
  const auto slowest = [&](double x) {
    std::array value{x};
    allreduce_host(comm, value, reduce_op::max);
    return value[0];
  };
  const auto timed = [&](double& least, auto& run, int ranks) {
    slowest(0);  // synchronises the ranks
    const auto start = std::chrono::steady_clock::now();
    run.step(batch_of(ranks), 0);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    least = std::min(least, slowest(time.count()));
  };
  double local_ms = std::numeric_limits<double>::max(), buckets_ms = local_ms, single_ms = local_ms;
  for (int k = 0; k < reps; ++k) {
    timed(local_ms, local, 1);
    timed(buckets_ms, buckets, comm.size());
    timed(single_ms, single, comm.size());
  }
  if (comm.rank() == 0)
    std::printf(
        "%d processes, batch %d each: without communication %.2f ms; %zu buckets %.2f ms, exposed "
        "%.1f %%; one bucket %.2f ms, exposed %.1f %%\n",
        comm.size(), n, local_ms, buckets.buckets().size(), buckets_ms,
        100 * (buckets_ms / local_ms - 1), single_ms, 100 * (single_ms / local_ms - 1));
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(
        argc, argv, "mpi_step: communication of a step over processes that backward does not hide");
    const int reps = o.whole("reps", 30, "interleaved repetitions");
    const int n = o.whole("batch", 64, "samples on each rank");
    const int bytes = o.whole("bucket", 1 << 18, "bytes of a bucket at most");
    o.done();
    mpi::launch([&](mpi comm) { measure(comm, n, reps, static_cast<std::size_t>(bytes)); });
  });
}
