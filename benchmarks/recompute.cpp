// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Memory and time of a training step with and without recomputed activations: ResNet-50 at 224x224
// in fp32, sgd with momentum, on one rank. A process has one peak of its memory, so that each run
// measures one of both; the checksum of the weights behind the steps is that of both.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <limits>
#include <vector>

#include <sys/resource.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/train/describe.hpp>
#include <cordee/train/trainer.hpp>

#include "benchmarks/options.hpp"
#include "examples/options.hpp"

using namespace cordee;

namespace {

template <bool Recompute>
void measure(int n, int steps) {
  using net_type =
      resnet<50, fp32, cpu,
             resnet_options{.image = {3, 224, 224}, .classes = 1000, .recompute = Recompute}>;
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(n) * net_type::input.size());
  std::vector<std::int32_t> labels(static_cast<std::size_t>(n));
  random_sequence random(1, purpose::test, 0, 0);
  for (auto& p : pixels) p = static_cast<std::uint8_t>(random.bits());
  for (auto& l : labels) l = static_cast<std::int32_t>(random.below(1000));
  const std::array micro{
      batch<cpu>{{pixels.data(), pixels.size()}, {labels.data(), labels.size()}, n, n, 1, {}}};
  net_type net;
  trainer run{net, sgd{.momentum = 0.9}, [](double) { return 1e-3; }, solo{}};
  double least = std::numeric_limits<double>::max();
  for (int k = 0; k < steps; ++k) {
    const double start = bench::now();
    run.step(micro, 0);
    least = std::min(least, bench::now() - start);
  }
  std::uint64_t bits = 0;
  for (const float x : run.weights()) {
    std::uint32_t word = 0;
    std::memcpy(&word, &x, sizeof(x));
    bits = bits * 1099511628211u + word;
  }
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  std::printf("%s: %.3f s a step, peak resident memory %.0f MB, weights %016llx, %s\n",
              Recompute ? "recompute" : "plain", least,
              static_cast<double>(usage.ru_maxrss) * 1024e-6, static_cast<unsigned long long>(bits),
              detail::train::instruction_set().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "recompute: memory and time of a step of ResNet-50");
    const bool recomputes = o.flag("recompute", "compute activations again in backward");
    const int n = o.whole("batch", 32, "samples of a step");
    const int steps = o.whole("steps", 3, "of which the fastest counts");
    o.done();
    if (recomputes)
      measure<true>(n, steps);
    else
      measure<false>(n, steps);
  });
}
