// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a checkpoint costs.
//
//   stall   100 steps of ResNet-50 (25.6 million parameters, sgd with momentum) with one save in
//           their middle, and without: wall time, and the process's user and system time, in which
//           the thread that writes is contained. Minima over interleaved repetitions. The same save
//           by itself, beside no training, and its parts.
//   memory  the same steps with memory_checkpoint, which keeps each one's state, and without.
//           Minima over interleaved repetitions of `steps` steps; the copy by itself.
//   large   a model of 10^9 parameters and their momentum (an arena of 12 GB, files of 8 GB): saved
//           without a copy and resumed; seconds, and the memory beyond the arena.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <sys/resource.h>

#include <cordee/checkpoint/checkpoint.hpp>
#include <cordee/checkpoint/memory_checkpoint.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/describe.hpp>
#include <cordee/train/trainer.hpp>

#include "benchmarks/options.hpp"
#include "examples/options.hpp"
#include "tests/support/large_model.hpp"
#include "tests/support/peak_memory.hpp"

using namespace cordee;
using detail::checkpoints::checkpoint_writer;
using detail::checkpoints::run_folder;

namespace {

constexpr auto small_lr = [](double) { return 1e-4; };

/// User and system time of the process, in seconds.
double cpu_seconds() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const struct timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct cost {
  double wall = std::numeric_limits<double>::max(), cpu = wall;
  void reduce(const cost& c) {
    wall = std::min(wall, c.wall);
    cpu = std::min(cpu, c.cpu);
  }
};
template <class F>
cost cost_of(const F& f) {
  const double wall = bench::now(), cpu = cpu_seconds();
  f();
  return {bench::now() - wall, cpu_seconds() - cpu};
}

using net_type = resnet<50, fp32, cpu, resnet_options{.image = {3, 224, 224}, .classes = 1000}>;

/// A micro-batch of n samples, all alike.
struct samples {
  explicit samples(int count)
      : n(count),
        pixels(static_cast<std::size_t>(n) * net_type::input.size(), 100),
        labels(static_cast<std::size_t>(n), 7) {}
  [[nodiscard]] std::array<batch<cpu>, 1> micro() {
    return {
        batch<cpu>{{pixels.data(), pixels.size()}, {labels.data(), labels.size()}, n, n, 1, {}}};
  }
  int n;
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;
};

void stall(const run_folder& folder, int n, int steps, int reps) {
  samples all(n);
  const auto micro = all.micro();
  net_type net;
  trainer run{net, sgd{.momentum = 0.9}, small_lr, solo{}};
  checkpoint_writer writer;
  writer.prepare(run);
  cost stalled;  // of save, which training waits for
  const auto train = [&](bool saves) {
    return cost_of([&] {
      for (int k = 0; k < steps; ++k) {
        run.step(micro, 0);
        if (saves && k == steps / 2)
          stalled.reduce(cost_of([&] { writer.save(run, folder, 1, true); }));
        if (saves && !writer.is_writing()) writer.start_finalizing(run.comm());
      }
      writer.finish(run.comm());
    });
  };
  for (int k = 0; k < 3; ++k) run.step(micro, 0);
  cost without, with, alone, streamed;
  for (int k = 0; k < reps; ++k) {
    without.reduce(train(false));
    with.reduce(train(true));
    alone.reduce(cost_of([&] {
      writer.save(run, folder, 1, true);
      writer.finish(run.comm());
    }));
    streamed.reduce(cost_of([&] { writer.save(run, folder, 1, false); }));
    std::printf("repetition %d: without %.2f s (CPU %.2f), with %.2f s (CPU %.2f)\n", k + 1,
                without.wall, without.cpu, with.wall, with.cpu);
    std::fflush(stdout);
  }
  std::printf(
      "ResNet-50, batch %d, %d steps: without a save %.2f s, CPU %.2f s; with one %.2f s, CPU %.2f "
      "s:"
      " wall %+.2f %%, CPU %+.2f %%\n",
      n, steps, without.wall, without.cpu, with.wall, with.cpu,
      100 * (with.wall / without.wall - 1), 100 * (with.cpu / without.cpu - 1));
  std::printf(
      "training waits for %.0f ms of it (CPU %.0f ms); the whole save beside no training takes "
      "%.2f s, CPU %.2f s: %.2f %% of the steps' CPU time; without a copy %.2f s, CPU %.2f s\n",
      1e3 * stalled.wall, 1e3 * stalled.cpu, alone.wall, alone.cpu, 100 * alone.cpu / without.cpu,
      streamed.wall, streamed.cpu);
}

void memory(int n, int steps, int reps) {
  samples all(n);
  const auto micro = all.micro();
  net_type net;
  trainer run{net, sgd{.momentum = 0.9}, small_lr, solo{}};
  memory_checkpoint kept;
  kept.begin_on_all_ranks(run, 0);  // allocates
  const auto train = [&](bool keeps) {
    return cost_of([&] {
      for (int k = 0; k < steps; ++k) {
        run.step(micro, 0);
        if (keeps) kept.step_on_all_ranks(run, 0);
      }
    });
  };
  (void)train(true);
  cost without, with, alone;
  for (int k = 0; k < reps; ++k) {
    without.reduce(train(false));
    with.reduce(train(true));
    alone.reduce(cost_of([&] { kept.step_on_all_ranks(run, 0); }));
  }
  const double bytes = 8.0 * static_cast<double>(run.weights().size);  // with momentum
  std::printf(
      "ResNet-50, batch %d, %d steps: without memory_checkpoint %.1f ms a step, with it %.1f ms: "
      "%+.1f ms, %+.2f %%; the copy alone %.1f ms for %.0f MB, %.1f GB/s, CPU %.1f ms\n",
      n, steps, 1e3 * without.wall / steps, 1e3 * with.wall / steps,
      1e3 * (with.wall - without.wall) / steps, 100 * (with.wall / without.wall - 1),
      1e3 * alone.wall, 1e-6 * bytes, 1e-9 * bytes / alone.wall, 1e3 * alone.cpu);
}

void large(const run_folder& folder) {
  constexpr std::size_t n = 1'000'000'000;
  support::large_model<n> model;
  trainer run{model, sgd{.momentum = 0.9}, small_lr, solo{}};
  std::fill_n(run.slot(0).data, n, 0.25f);
  std::printf("arena: %.2f GB\n", 1e-9 * static_cast<double>(run.arena_bytes()));
  std::fflush(stdout);
  const auto measure = [&](const char* name, const auto& f) {
    cost c;
    const auto peak = support::peak_memory_of([&] { c.reduce(cost_of(f)); });
    std::printf("%s: %.1f s, CPU %.1f s, memory beyond the arena %.2f MB\n", name, c.wall, c.cpu,
                peak ? 1e-6 * static_cast<double>(*peak) : -1);
    std::fflush(stdout);
  };
  checkpoint_writer writer;
  measure("save", [&] { writer.save(run, folder, 1, false); });
  std::fill_n(run.weights().data, n, 0.f);
  std::fill_n(run.slot(0).data, n, 0.f);
  measure("resume", [&] { resume_run(run, folder.path()); });
  std::size_t different = 0;
  for (std::size_t i = 0; i < n; ++i)
    if (run.weights()[i] != static_cast<float>(i % (1u << 20)) || run.slot(0)[i] != 0.25f)
      ++different;
  std::printf("%zu of %zu numbers and momenta differ\n", different, n);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "checkpoint: what a checkpoint costs");
    const std::string what = o.string("what", "stall", "stall, memory or large");
    const run_folder folder(
        o.string("folder", "bench_checkpoint", "is made, and removed at the end"));
    const int n = o.whole("batch", 2, "samples of a step");
    const int steps =
        o.whole("steps", 100, "of a repetition; of stall one save is in their middle");
    const int reps = o.whole("reps", 3, "interleaved repetitions");
    o.done();
    if (std::filesystem::exists(folder.path()))
      throw error(concat(folder.path(), " exists: name a folder that can be made and removed"));
    folder.create();
    std::printf("%s\n", detail::train::instruction_set().c_str());
    if (what == "stall")
      stall(folder, n, steps, reps);
    else if (what == "memory")
      memory(n, steps, reps);
    else if (what == "large")
      large(folder);
    else
      throw error(concat("--what takes stall, memory or large, not \"", what, "\""));
    std::filesystem::remove_all(folder.path());
  });
}
