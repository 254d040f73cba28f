// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A process of a run over ZeroMQ that loses a rank, and goes on from memory or is started again
// from a checkpoint. benchmarks/elastic.sh starts it on hosts, and compares the times:
//
//   bench_elastic elastic|restart FOLDER [STEPS [STEP_MS [KILLED_RANK]]]
//
// 6.4 million parameters with momentum, 51 MB; computation is emulated by sleeping. `restart` saves
// a checkpoint to FOLDER every 20 steps. With KILLED_RANK that rank's process is killed after step
// 30, once. Rank 0 appends a line to FOLDER/steps for each world, as step -1, and each completed
// step: the machine's monotonic clock in s, the step, the number of ranks.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <thread>

#include <unistd.h>

#include <cordee/checkpoint/checkpoint.hpp>
#include <cordee/checkpoint/memory_checkpoint.hpp>
#include <cordee/comm/zeromq.hpp>
#include <cordee/cordee.hpp>

using namespace cordee;

namespace {

struct options {
  bool is_elastic;
  std::string folder;
  std::int64_t steps;
  std::chrono::milliseconds step_time;
  int killed;
};

struct no_data {};

custom_model<no_data> model_of(std::chrono::milliseconds step_time) {
  parameter_list list;
  for (int k = 0; k < 32; ++k) list.add(concat("t", k), {200'000});
  return {list, [step_time](const no_data&, auto& pass) {
            std::this_thread::sleep_for(step_time);
            for (std::size_t k = 32; k-- > 0;) pass.ready(k);  // gradients stay 0
            return metrics{.count = 1};
          }};
}

void log_step(const options& o, std::int64_t step, int ranks) {
  const double now =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  std::FILE* const file = std::fopen((o.folder + "/steps").c_str(), "a");
  if (file == nullptr) throw error("cannot write to " + o.folder);
  std::fprintf(file, "%.3f %lld %d\n", now, static_cast<long long>(step), ranks);
  std::fclose(file);
}

struct step_log {
  const options& o;
  int rank, ranks;
  template <class Run>
  bool step_on_all_ranks(Run& run, double) const {
    if (rank == 0) log_step(o, run.steps_taken(), ranks);
    const std::string once = o.folder + "/killed";
    if (rank == o.killed && run.steps_taken() == 30 && !std::filesystem::exists(once)) {
      std::fclose(std::fopen(once.c_str(), "w"));
      ::kill(::getpid(), SIGKILL);
    }
    return false;
  }
};

void train(const zeromq& comm, const options& o, memory_checkpoint& kept) {
  if (comm.rank() == 0) log_step(o, -1, comm.size());
  auto model = model_of(o.step_time);
  trainer run{model, sgd{.momentum = 0.9}, constant{1e-3}, ring{comm}};
  batch_source feed{static_cast<std::size_t>(12 * o.steps),
                    comm,
                    {.global_batch = 12},
                    [](const sample_indices&) { return no_data{}; }};
  const step_log log{o, comm.rank(), comm.size()};
  if (o.is_elastic) {
    kept.resume(run);
    run.fit(feed, 1, kept, log);
  } else {
    const std::string folder = o.folder + "/run";
    run.resume(folder);
    run.fit(feed, 1, checkpoint{.folder = folder, .every = {.steps = 20}}, log);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3)
    throw usage_error("bench_elastic elastic|restart FOLDER [STEPS [STEP_MS [KILLED_RANK]]]");
  const options o{std::string(argv[1]) == "elastic", argv[2], argc > 3 ? std::atoi(argv[3]) : 100,
                  std::chrono::milliseconds(argc > 4 ? std::atoi(argv[4]) : 100),
                  argc > 5 ? std::atoi(argv[5]) : -1};
  memory_checkpoint kept;
  zeromq::options z{.deadline = std::chrono::seconds(4), .listen = "*"};
  if (o.is_elastic) z.elastic = elastic{.smallest = 2};
  zeromq::launch([&](zeromq comm) { train(comm, o, kept); }, z);
} catch (const std::exception& e) {
  std::fprintf(stderr, "bench_elastic: %s\n", e.what());
  return 1;
}
