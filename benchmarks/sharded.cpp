// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exchange and update together, sharded and not: LAMB on ResNet-50's 25.6 million parameters.
//
// Ranks are threads. The model's backward writes a gradient; timed is what follows in the step,
// until all ranks have all weights: the exchange, the test and the norms, the update. The two
// trainers are timed in turn; figures are minima over repetitions of the slowest rank's time, and
// of the process's processor time for a whole step, backward included.
#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <span>
#include <vector>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/sharded.hpp>
#include <cordee/comm/reducers/two_shot.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/train/trainer.hpp>

#include "benchmarks/options.hpp"
#include "benchmarks/resnet50_table.hpp"

namespace {

using namespace cordee;

struct options {
  int reps = 10, ranks = 4;
};

constexpr const char* usage =
    "sharded: exchange and update of LAMB on ResNet-50's parameters, sharded and not\n"
    "  --reps N      repetitions, minima are printed   (10)\n"
    "  --ranks N     ranks, threads of this process    (4)\n"
    "  --help        this\n";

/// Writes a gradient, and when it has.
struct written_gradient {
  using precision = fp32;
  using device = cpu;
  using packed_parameters = buffer<float, cpu>;
  static constexpr extent input{1, 1, 1};
  static constexpr int classes = 1;
  static constexpr bool overwrites_gradients = true;

  std::span<const segment> table;
  int rank = 0;
  double written = 0;

  [[nodiscard]] std::span<const segment> segments() const { return table; }
  [[nodiscard]] static cpu get_device() { return cpu{1}; }
  void initialize(span_on<float, cpu> plane, std::uint64_t) const {
    for (const segment& s : table)
      for (std::size_t i = s.offset; i < s.end(); ++i)
        plane[i] = 1e-2f * static_cast<float>(i % 97) - 0.5f;
  }
  [[nodiscard]] static packed_parameters make_packed_parameters() { return {}; }
  void pack_parameters(span_on<float, cpu>, packed_parameters&, cpu::stream) const {}
  void forward(const packed_parameters&, span_on<float, cpu>, const batch<cpu>&, phase,
               cpu::stream) {}
  template <class Ready>
  void backward(const packed_parameters&, span_on<float, cpu> grads, write_mode, Ready&& ready,
                cpu::stream) {
    for (const segment& s : table)
      for (std::size_t i = s.offset; i < s.end(); ++i)
        grads[i] = 1e-3f * static_cast<float>((i + static_cast<std::size_t>(rank)) % 89) - 0.04f;
    written = bench::now();
    for (std::size_t k = table.size(); k-- > 0;) ready(k);
  }
  [[nodiscard]] metrics read_metrics(cpu::stream) const { return {0, 0, 0, 1}; }
};

struct times {
  double behind_backward = 1e9, processor = 1e9;
  void keep_least(const times& other) {
    behind_backward = std::min(behind_backward, other.behind_backward);
    processor = std::min(processor, other.processor);
  }
};

/// Seconds of a step behind backward, of the slowest rank, from when the last one has written.
template <class Run>
times timed_step(Run& run) {
  const std::clock_t begin = std::clock();
  batch<cpu> one;
  one.count = 1;
  one.global_samples = one.ranks = run.comm().size();
  run.step(std::array{one}, 0);
  std::array<double, 2> ends{bench::now(), run.model().written};
  allreduce_host(run.comm(), ends, reduce_op::max);
  return {ends[0] - ends[1], static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC};
}

template <class Make>
void compare(const char* name, const options& o, const Make& make) {
  const std::vector<segment> table = bench::resnet50_table();
  threads::launch(o.ranks, [&](threads comm) {
    const auto rate = [](double) { return 1e-3; };
    // A trainer after the other's last step may find other memory: both are made first.
    written_gradient model{.table = table, .rank = comm.rank()}, other = model;
    trainer whole{model, lamb{}, rate, make(comm.duplicate(0)), {.overlap = false}};
    trainer parts{other, lamb{}, rate, sharded{make(comm.duplicate(0))}, {.overlap = false}};
    times least_whole, least_parts;
    for (int k = 0; k < o.reps + 2; ++k) {
      const times unsharded = timed_step(whole), sharded = timed_step(parts);
      if (k < 2) continue;  // memory is touched
      least_whole.keep_least(unsharded);
      least_parts.keep_least(sharded);
    }
    if (comm.rank() == 0)
      std::printf(
          "%-10s %d ranks: whole %6.1f ms, sharded %6.1f ms, ratio %.2f; processor time of a step "
          "%6.1f and %6.1f ms; bytes of a rank %zu and %zu\n",
          name, comm.size(), 1e3 * least_whole.behind_backward, 1e3 * least_parts.behind_backward,
          least_parts.behind_backward / least_whole.behind_backward, 1e3 * least_whole.processor,
          1e3 * least_parts.processor, whole.arena_bytes(), parts.arena_bytes());
  });
}

}  // namespace

int main(int argc, char** argv) {
  options o;
  bench::read_options(argc, argv, usage, {{"--reps", &o.reps}, {"--ranks", &o.ranks}});
  compare("ring", o, [](auto comm) { return ring{comm}; });
  compare("two_shot", o, [](auto comm) { return two_shot{comm}; });
  compare("native", o, [](threads comm) { return native{comm}; });
}
