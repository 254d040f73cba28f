// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Whole networks on one machine: forward and backward of ResNet-50 on 224x224 images, and a
// training step of ResNet-20 on CIFAR's. Minima over repetitions; a multiply-add is two operations,
// and backward counts as two forwards. With --lines it prints `cordee/name seconds` instead, for
// benchmarks/compare_torch.sh; there, packing the weights is part of the forward pass. --precisions
// takes the training step in fp32, bf16 and fp16 in turn instead; with --lines, both networks in
// bf16 alone.
#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstdio>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <cordee/cordee.hpp>

#include "benchmarks/peak.hpp"
#include "examples/options.hpp"

using namespace cordee;

namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

struct samples {
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;

  samples(const extent& image, int classes, int n)
      : pixels(static_cast<std::size_t>(n) * image.size()), labels(static_cast<std::size_t>(n)) {
    random_sequence random(1, purpose::test, 0, 0);
    for (auto& p : pixels) p = static_cast<std::uint8_t>(random.bits());
    for (auto& l : labels)
      l = static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(classes)));
  }
  [[nodiscard]] batch<cpu> whole_batch() const {
    const auto n = static_cast<std::int64_t>(labels.size());
    return {{pixels.data(), pixels.size()},
            {labels.data(), labels.size()},
            static_cast<int>(n),
            n,
            1,
            {}};
  }
};

void print_line(const char* name, double milliseconds) {
  std::printf("cordee/%s %.9f\n", name, milliseconds * 1e-3);
  std::fflush(stdout);
}

void report(const char* name, int n, std::int64_t macs, double passes, double milliseconds) {
  const double gflops = 2e-6 * static_cast<double>(macs) * n * passes / milliseconds;
  std::printf("%-34s batch %3d  %9.2f ms  %8.1f images/s  %6.1f GFLOP/s\n", name, n, milliseconds,
              1e3 * n / milliseconds, gflops);
  std::fflush(stdout);
}

// The kernels alone: no optimizer, no loader.
template <class Net>
void forward_and_backward(const char* name, int n, int threads, int reps, bool lines) {
  const samples data(Net::input, Net::classes, n);
  Net net{cpu(threads)};
  arena<float, cpu> memory(net.get_device(), Net::segments(), 2);
  net.initialize(memory.plane(0), 1);
  auto packed = net.make_packed_parameters();
  const auto s = net.get_device().make_stream();
  double packing = std::numeric_limits<double>::max(), forward = packing, backward = packing;
  double packing_and_forward = packing, total = packing;
  for (int k = 0; k <= reps; ++k) {  // the first one is a warm-up
    const auto begin = std::chrono::steady_clock::now();
    net.pack_parameters(memory.plane(0), packed, s);
    const double after_packing = milliseconds_since(begin);
    net.forward(packed, memory.plane(0), data.whole_batch(), phase::train, s);
    const double after_forward = milliseconds_since(begin);
    net.backward(
        packed, memory.plane(1), write_mode::overwrite, [](std::size_t) {}, s);
    const double after_backward = milliseconds_since(begin);
    if (k == 0) continue;
    packing = std::min(packing, after_packing);
    forward = std::min(forward, after_forward - after_packing);
    backward = std::min(backward, after_backward - after_forward);
    packing_and_forward = std::min(packing_and_forward, after_forward);
    total = std::min(total, after_backward);
  }
  if (lines) {
    const std::string suffix =
        std::same_as<typename Net::precision, fp32> ? "" : concat("_", Net::precision::name);
    print_line(concat("resnet50_forward", suffix).c_str(), packing_and_forward);
    print_line(concat("resnet50_forward_and_backward", suffix).c_str(), total);
    return;
  }
  std::printf("%-34s            %9.2f ms\n", concat(name, " packing").c_str(), packing);
  report(concat(name, " forward").c_str(), n, Net::macs(), 1, forward);
  report(concat(name, " backward").c_str(), n, Net::macs(), 2, backward);
  report(concat(name, " forward and backward").c_str(), n, Net::macs(), 3, forward + backward);
}

void whole_step(int n, int threads, int reps, bool lines) {
  using net_type = resnet<20, fp32, cpu>;
  const samples data(net_type::input, net_type::classes, n);
  net_type net{cpu(threads)};
  trainer run{net, sgd{.momentum = 0.9}, constant{.learning_rate = 1e-4}, solo{}};
  double step = std::numeric_limits<double>::max();
  bench::fma_peak peak(threads);
  const auto s = net.get_device().make_stream();
  for (int k = 0; k <= reps; ++k) {
    peak.time(s);
    const auto begin = std::chrono::steady_clock::now();
    run.step(std::array{data.whole_batch()}, 0);
    if (k > 0) step = std::min(step, milliseconds_since(begin));
  }
  // Three directions of every layer at the peak, but no gradient of the input.
  const std::int64_t stem = convolution_problem{net_type::input, 16, 3, 1, 1}.macs();
  const double roofline = 2e3 * static_cast<double>(3 * net_type::macs() - stem) * n / peak.flops();
  if (lines) {
    print_line("resnet20_step", step);
    std::printf("roofline/resnet20_step %.9f\n", roofline * 1e-3);
    return;
  }
  report("ResNet-20 step with sgd", n, net_type::macs(), 3, step);
  std::printf("%-34s            %9.2f ms, %.0f %% of it\n", "  at the FMA peak of this run",
              roofline, 100 * roofline / step);
}

/// bf16 in the arithmetic of fp32 on any processor.
using widened_engine =
    detail::ops::winograd_with<detail::ops::register_bytes, detail::ops::byte_dots, false>;

/// A training step of ResNet-20 in one precision, with what it needs from step to step.
template <class P, class Engine = typename engine_for<cpu, P>::type>
struct step_in {
  using net_type = resnet<20, P, cpu, resnet_options{}, Engine>;

  net_type net;
  trainer<net_type, sgd, constant, solo> run;
  samples data;
  std::vector<double> times;

  step_in(int n, int threads)
      : net(cpu(threads)),
        run(net, sgd{.momentum = 0.9}, constant{.learning_rate = 1e-4}, solo{}),
        data(net_type::input, net_type::classes, n) {}

  void time() {
    const auto begin = std::chrono::steady_clock::now();
    run.step(std::array{data.whole_batch()}, 0);
    times.push_back(milliseconds_since(begin));
  }
  /// The minima's quotient, and the least and the largest quotient of one turn. The first turn is a
  /// warm-up.
  void report_against(const std::vector<double>& reference) const {
    constexpr bool widened = std::same_as<P, bf16> && std::same_as<Engine, widened_engine>;
    double least = std::numeric_limits<double>::max(), largest = 0;
    for (std::size_t k = 1; k < times.size(); ++k) {
      least = std::min(least, times[k] / reference[k]);
      largest = std::max(largest, times[k] / reference[k]);
    }
    const double best = *std::min_element(times.begin() + 1, times.end()),
                 base = *std::min_element(reference.begin() + 1, reference.end());
    std::printf(
        "ResNet-20 step in %s%-8s batch %3d  %9.2f ms  %.3f of fp32; in a turn %.3f to %.3f\n",
        std::string(P::name).c_str(), widened ? " widened" : "",
        static_cast<int>(data.labels.size()), best, best / base, least, largest);
  }
};

void bf16_step_line(int n, int threads, int reps) {
  step_in<bf16> brain(n, threads);
  for (int k = 0; k <= reps; ++k) brain.time();
  print_line("resnet20_step_bf16", *std::min_element(brain.times.begin() + 1, brain.times.end()));
}

void steps_by_precision(int n, int threads, int reps) {
  step_in<fp32> single(n, threads);
  step_in<bf16> brain(n, threads);
  step_in<bf16, widened_engine> widened(n, threads);
  step_in<fp16> half_precision(n, threads);
  for (int k = 0; k <= reps; ++k) {
    single.time();
    brain.time();
    widened.time();
    half_precision.time();
  }
  single.report_against(single.times);
  brain.report_against(single.times);
  widened.report_against(single.times);
  half_precision.report_against(single.times);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "resnet: whole networks, forward and backward");
    const int threads =
        o.whole("threads", static_cast<int>(std::thread::hardware_concurrency()), "workers");
    const int reps = o.whole("reps", 5, "repetitions; minima are printed");
    const int large = o.whole("batch", 8, "samples of ResNet-50, 224x224; 0 omits it");
    const int small = o.whole("small", 128, "samples of ResNet-20, 32x32; 0 omits it");
    const bool lines = o.flag("lines", "print `cordee/name seconds` and nothing else");
    const bool precisions =
        o.flag("precisions",
               "the step in fp32, bf16 (also in fp32 arithmetic) and fp16 by turns; with "
               "--lines, both networks in bf16");
    o.done();
    if (!lines)
      std::printf("%s, %d threads, %d repetitions\n", detail::train::instruction_set().c_str(),
                  threads, reps);
    if (precisions && !lines) return steps_by_precision(small, threads, reps);
    if (precisions) {
      if (small > 0) bf16_step_line(small, threads, reps);
      if (large > 0)
        forward_and_backward<resnet<50, bf16, cpu>>("ResNet-50", large, threads, reps, lines);
      return;
    }
    if (small > 0) whole_step(small, threads, reps, lines);
    if (large > 0)
      forward_and_backward<resnet<50, fp32, cpu>>("ResNet-50", large, threads, reps, lines);
  });
}
