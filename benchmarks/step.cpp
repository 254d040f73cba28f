// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The overhead of a training step: the kernels alone against the whole trainer, the share of the
// communication that backward hides when a link has 1 GB/s, batch norm over ranks, recalibration,
// and K-FAC.
// Ratios of minima over interleaved repetitions of one run.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <limits>
#include <thread>
#include <vector>

#include <cordee/cordee.hpp>

#include "examples/options.hpp"
#include "tests/support/delayed_comm.hpp"

using namespace cordee;

namespace {

using clock_type = std::chrono::steady_clock;
using net_type = resnet<20, fp32, cpu, resnet_options{.image = {3, 32, 32}}>;

template <class F>
double timed(const F& f) {
  const auto start = clock_type::now();
  f();
  return std::chrono::duration<double, std::milli>(clock_type::now() - start).count();
}

struct samples {
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;

  explicit samples(int n)
      : pixels(static_cast<std::size_t>(n) * net_type::input.size()),
        labels(static_cast<std::size_t>(n)) {
    random_sequence random(1, purpose::test, 0, 0);
    for (auto& p : pixels) p = static_cast<std::uint8_t>(random.bits());
    for (auto& l : labels) l = static_cast<std::int32_t>(random.below(10));
  }
  [[nodiscard]] batch<cpu> batch_of(int ranks) const {
    const auto n = static_cast<std::int64_t>(labels.size());
    return {{pixels.data(), pixels.size()},
            {labels.data(), labels.size()},
            static_cast<int>(n),
            n * ranks,
            ranks,
            {}};
  }
};

constexpr auto small_lr = [](double) { return 1e-4; };

// A network that measures the time of its kernels, without what the trainer does in `ready`.
struct timed_network : net_type {
  double milliseconds = 0;

  void forward(const packed_parameters& packed, span_on<float, cpu> plane, const batch<cpu>& b,
               phase p, cpu::stream s) {
    milliseconds += timed([&] { net_type::forward(packed, plane, b, p, s); });
  }
  template <class Ready>
  void backward(const packed_parameters& packed, span_on<float, cpu> gradients, write_mode mode,
                Ready&& ready, cpu::stream s) {
    double in_ready = 0;
    const auto timed_ready = [&](std::size_t k) { in_ready += timed([&] { ready(k); }); };
    milliseconds += timed([&] { net_type::backward(packed, gradients, mode, timed_ready, s); });
    milliseconds -= in_ready;
  }
};

// One rank: the network's forward and backward within the trainer's whole step.
void overhead(int n, int reps) {
  const samples data(n);
  timed_network net;
  trainer run{net, lars{}, small_lr, solo{}};
  double kernels = std::numeric_limits<double>::max(), step = kernels, rest = kernels;
  for (int k = 0; k < reps; ++k) {
    net.milliseconds = 0;
    const double time = timed([&] { run.step(std::array{data.batch_of(1)}, 0); });
    kernels = std::min(kernels, net.milliseconds);
    step = std::min(step, time);
    rest = std::min(rest, time - net.milliseconds);
  }
  std::printf(
      "one rank, batch %d: step with lars %.2f ms, forward and backward %.2f ms, the rest %.3f ms: "
      "%.2f %%\n",
      n, step, kernels, rest, 100 * (step / kernels - 1));
}

// Two ranks, one thread each, over a link of 1 GB/s: no communication, after backward, during
// backward.
void overlap(int n, int reps, std::size_t bucket_bytes) {
  const samples data(n);
  std::vector<double> none(2, 1e9), after(2, 1e9), overlapped(2, 1e9), alone(2, 1e9);
  threads::launch(2, [&](threads comm) {
    const auto r = static_cast<std::size_t>(comm.rank());
    const support::delayed_comm slow{comm, 1e9, std::chrono::microseconds(50)};
    net_type a, b, c;
    trainer local{a, sgd{}, small_lr, solo{}, {.bucket_bytes = bucket_bytes}};
    trainer sequential{
        b, sgd{}, small_lr, ring{slow}, {.bucket_bytes = bucket_bytes, .overlap = false}};
    trainer overlapping{c, sgd{}, small_lr, ring{slow}, {.bucket_bytes = bucket_bytes}};
    std::vector<std::byte> scratch(ring{slow}.scratch<float>(sequential.grads().size));
    const auto barrier = [&] {
      std::array x{0.0};
      allreduce_host(comm, x, reduce_op::sum);
    };
    for (int k = 0; k < reps; ++k) {
      barrier();
      none[r] = std::min(none[r], timed([&] {
                           local.step(std::array{data.batch_of(1)}, 0);
                           barrier();
                         }));
      barrier();
      after[r] =
          std::min(after[r], timed([&] { sequential.step(std::array{data.batch_of(2)}, 0); }));
      barrier();
      overlapped[r] = std::min(overlapped[r],
                               timed([&] { overlapping.step(std::array{data.batch_of(2)}, 0); }));
      barrier();
      alone[r] =
          std::min(alone[r], timed([&] {
                     for (const bucket& k : sequential.buckets())
                       ring{slow}.mix(
                           bucket_view<float, cpu, 0>{&k,
                                                      sequential.grads().subspan(k.offset, k.size),
                                                      {},
                                                      {scratch.data(), scratch.size()}},
                           step_info{}, cpu::stream{});
                   }));
    }
    if (comm.rank() == 0)
      std::printf(
          "two ranks at 1 GB/s, batch %d each, %zu buckets: no communication %.2f ms, "
          "communication alone %.2f ms, after backward %.2f ms, during backward %.2f ms: %.0f %% "
          "of "
          "it hidden\n",
          n, sequential.buckets().size(), none[0], alone[0], after[0], overlapped[0],
          100 * (after[0] - overlapped[0]) / alone[0]);
  });
}

// Batch norm's statistics of each rank, and over all: the same step of the same network.
void shared_statistics(int ranks, int n, int reps) {
  const samples data(n);
  threads::launch(ranks, [&](threads comm) {
    net_type a, b;
    trainer own{a, sgd{}, small_lr, ring{comm}};
    trainer shared{b, sgd{}, small_lr, ring{comm}, {.batch_norm_over = 0}};
    double own_time = std::numeric_limits<double>::max(), shared_time = own_time;
    for (int k = 0; k < reps; ++k) {
      const std::array micro{data.batch_of(ranks)};
      own_time = std::min(own_time, timed([&] { own.step(micro, 0); }));
      shared_time = std::min(shared_time, timed([&] { shared.step(micro, 0); }));
    }
    if (comm.rank() == 0)
      std::printf(
          "%d ranks, batch %d each: step %.2f ms, with batch norm over all ranks %.2f ms: %.2f "
          "times\n",
          ranks, n, own_time, shared_time, shared_time / own_time);
  });
}

// Recalibration by eight updates, beside as many steps.
void recalibrated_statistics(int n, int reps) {
  const synthetic images{net_type::input, {10}, 16 * static_cast<std::size_t>(n), 1};
  loader feed{images, self_comm{}, {.global_batch = n}},
      sample{images, self_comm{}, {.global_batch = n}};
  net_type net;
  trainer run{net, sgd{.momentum = 0.9}, small_lr, solo{}};
  constexpr int updates = 8;
  double steps = std::numeric_limits<double>::max(), recalibration = steps;
  for (int k = 0; k < reps; ++k) {
    steps = std::min(steps, timed([&] {
                       for (int i = 0; i < updates; ++i) run.step(feed.next(), 0);
                     }));
    recalibration = std::min(recalibration, timed([&] { recalibrate(run, sample, updates); }));
  }
  std::printf(
      "one rank, batch %d: %d steps %.2f ms, recalibration by as many updates %.2f ms: %.2f of "
      "them\n",
      n, updates, steps, recalibration, recalibration / steps);
}

// K-FAC's factors and solutions: of a step that computes them, and of one that keeps them.
void natural_gradient(int ranks, int n, int reps) {
  const samples data(n);
  threads::launch(ranks, [&](threads comm) {
    net_type a, b;
    trainer plain{a, sgd{}, small_lr, ring{comm}};
    trainer natural{b, kfac{sgd{}, 1e-3, 16, 2}, small_lr, ring{comm}};
    double step = std::numeric_limits<double>::max(), fresh = step, stale = step;
    const std::array micro{data.batch_of(ranks)};
    for (int k = 0; k < reps; ++k) {
      step = std::min(step, timed([&] { plain.step(micro, 0); }));
      fresh = std::min(fresh, timed([&] { natural.step(micro, 0); }));
      stale = std::min(stale, timed([&] { natural.step(micro, 0); }));
    }
    if (comm.rank() == 0)
      std::printf(
          "%d ranks, batch %d each: step %.1f ms, with kfac %.1f ms where it computes factors, "
          "%.1f ms where it keeps them\n",
          ranks, n, step, fresh, stale);
  });
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "step: overhead of the trainer, and communication hidden by backward");
    const int reps = o.whole("reps", 30, "interleaved repetitions");
    const int n = o.whole("batch", 64, "samples on each rank");
    const int small = o.whole("small", 4, "samples on each rank when communication is measured");
    o.done();
    std::printf("%s\n", detail::train::instruction_set().c_str());
    overhead(n, reps);
    for (const std::size_t bytes : {1u << 21, 1u << 18, 1u << 17}) overlap(small, reps, bytes);
    for (const int batch : {small, n})
      for (const int ranks : {2, 4}) shared_statistics(ranks, batch, reps);
    for (const int batch : {small, n}) recalibrated_statistics(batch, reps);
    for (const int ranks : {1, 2}) natural_gradient(ranks, n, std::max(reps / 10, 1));
  });
}
