// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a training step of ResNet-50 consists of on the CPU, in fp32 and in bf16 by their default
// engines: the shares of the convolutions' three directions, of packing the weights, and of the
// rest. An engine's calls are timed where the network makes them, with its caches and its clock.
// The fastest step of each precision is printed; with --lines its shares as `name percent`.
#include <array>
#include <cstdio>
#include <thread>
#include <vector>

#include <cordee/cordee.hpp>

#include "benchmarks/options.hpp"
#include "examples/options.hpp"

using namespace cordee;

namespace {

enum part { packing, fprop_part, dgrad_part, wgrad_part, parts };

/// An engine that adds the times of its calls, all of which one thread makes.
template <class Engine>
struct timed_engine : Engine {
  static inline std::array<double, parts> seconds{};

  template <class N, class... Arguments>
  static void pack(const Arguments&... arguments) {
    time(packing, [&] { Engine::template pack<N>(arguments...); });
  }
  template <class N, class... Arguments>
  static void fprop(const Arguments&... arguments) {
    time(fprop_part, [&] { Engine::template fprop<N>(arguments...); });
  }
  template <class N, class... Arguments>
  static void dgrad(const Arguments&... arguments) {
    time(dgrad_part, [&] { Engine::template dgrad<N>(arguments...); });
  }
  template <class N, class... Arguments>
  static void wgrad(const Arguments&... arguments) {
    time(wgrad_part, [&] { Engine::template wgrad<N>(arguments...); });
  }

 private:
  template <class Call>
  static void time(part of, const Call& call) {
    const double start = bench::now();
    call();
    seconds[of] += bench::now() - start;
  }
};

struct plan {
  int samples, threads, reps;
  bool lines;
};

template <Precision P>
void measure(const plan& p) {
  using engine = timed_engine<typename engine_for<cpu, P>::type>;
  using net_type = resnet<50, P, cpu, resnet_options{}, engine>;
  const auto n = static_cast<std::size_t>(p.samples);
  std::vector<std::uint8_t> pixels(n * net_type::input.size());
  std::vector<std::int32_t> labels(n);
  random_sequence random(1, purpose::synthetic, 0, 0);
  for (auto& pixel : pixels) pixel = static_cast<std::uint8_t>(random.below(256));
  for (auto& label : labels) label = static_cast<std::int32_t>(random.below(net_type::classes));
  const batch<cpu> images{
      {pixels.data(), pixels.size()}, {labels.data(), n}, p.samples, p.samples, 1, {}};
  net_type net{cpu(p.threads)};
  trainer run{net, sgd{.momentum = 0.9}, constant{.learning_rate = 1e-4}, solo{}};
  std::array<double, parts> least{};
  double step = 0;
  for (int k = 0; k <= p.reps; ++k) {  // the first one is a warm-up
    engine::seconds = {};
    const double start = bench::now();
    run.step(std::array{images}, 0);
    const double seconds = bench::now() - start;
    if (k == 0 || (k > 1 && seconds >= step)) continue;
    step = seconds;
    least = engine::seconds;
  }
  const auto percent = [&](double seconds) { return 100 * seconds / step; };
  const double convolutions = least[fprop_part] + least[dgrad_part] + least[wgrad_part],
               others = step - convolutions - least[packing];
  const std::string name(P::name);
  if (p.lines) {
    std::printf("%s/step_ms %.3f\n%s/convolutions %.2f\n%s/packing %.2f\n%s/others %.2f\n",
                name.c_str(), 1e3 * step, name.c_str(), percent(convolutions), name.c_str(),
                percent(least[packing]), name.c_str(), percent(others));
    return;
  }
  std::printf(
      "ResNet-50 step in %s, engine %s, batch %d: %.1f ms, convolutions %.1f %% (fprop %.1f, "
      "dgrad %.1f, wgrad %.1f), packing %.1f %%, the rest %.1f %%\n",
      name.c_str(), std::string(engine::name).c_str(), p.samples, 1e3 * step, percent(convolutions),
      percent(least[fprop_part]), percent(least[dgrad_part]), percent(least[wgrad_part]),
      percent(least[packing]), percent(others));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "shares: what a training step of ResNet-50 consists of");
    plan p;
    p.samples = o.positive("batch", 8, "samples");
    p.threads =
        o.positive("threads", static_cast<int>(std::thread::hardware_concurrency()), "workers");
    p.reps = o.positive("reps", 5, "repetitions; the fastest is printed");
    p.lines = o.flag("lines", "print `precision/part percent` and nothing else");
    o.done();
    if (!p.lines)
      std::printf("%s, %d thread(s), %d repetitions\n", detail::train::instruction_set().c_str(),
                  p.threads, p.reps);
    measure<bf16>(p);
    measure<fp32>(p);
  });
}
