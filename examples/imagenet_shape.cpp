// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// ResNet-50 on one batch of noise in ImageNet's shape, again and again: images a second of the
// whole step, on the device that the program was compiled for. Only the device and the precision
// differ.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <vector>

#include <cordee/cordee.hpp>

#include "options.hpp"

using namespace cordee;

namespace {

#if defined(__CUDACC__)  // imagenet_shape.cu
using device = gpu;
using number = fp16;
#else
using device = cpu;
using number = fp32;
#endif
using net_type = resnet<50, number, device>;

/// Random images and labels.
batch<cpu> noise(int samples, std::vector<std::uint8_t>& pixels,
                 std::vector<std::int32_t>& labels) {
  const auto n = static_cast<std::size_t>(samples);
  random_sequence random(1, purpose::synthetic, 0, 0);
  for (pixels.resize(n * net_type::input.size()); std::uint8_t & p : pixels)
    p = static_cast<std::uint8_t>(random.below(256));
  for (labels.resize(n); std::int32_t & l : labels)
    l = static_cast<std::int32_t>(random.below(net_type::classes));
  return {{pixels.data(), pixels.size()}, {labels.data(), n}, samples, samples, 1, {}};
}

void measure(int samples, int warmup_steps, int steps, bool replay) {
  using clock = std::chrono::steady_clock;
  net_type net;
  trainer run{net, lars{}, constant{.learning_rate = 0.1}, solo{}, {.capture_graphs = replay}};
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;
  const batch<cpu> on_host = noise(samples, pixels, labels);
  upload<device> transfer(net.get_device());
  const auto batches = transfer.to({&on_host, 1}, run.compute());

  std::printf("ResNet-50, %lld parameters, %s on %s, engine %s, batch %d, launches %s\n",
              static_cast<long long>(net_type::parameters()), std::string(number::name).c_str(),
              std::string(device::name).c_str(), std::string(net_type::engine::name).c_str(),
              samples, std::string(run.describe_launches()).c_str());
  double least = std::numeric_limits<double>::max();
  for (int k = 0; k < warmup_steps + steps; ++k) {
    const auto begin = clock::now();
    const auto out = run.step(batches, 0);
    const double seconds = std::chrono::duration<double>(clock::now() - begin).count();
    if (k >= warmup_steps) least = std::min(least, seconds);
    std::printf("step %d: loss %s, %s ms\n", k, decimal::fixed(out.train.mean_loss(), 4).c_str(),
                decimal::fixed(1e3 * seconds, 1).c_str());
    std::fflush(stdout);
  }
  std::printf("%s images/s, of the fastest of %d steps\n",
              decimal::fixed(samples / least, 1).c_str(), steps);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "imagenet_shape: ResNet-50 on noise, images a second");
    const int samples = o.positive("batch", 8, "images of a step");
    const int warmup_steps = o.whole("warmup", 1, "steps before the measured ones");
    const int steps = o.positive("steps", 3, "measured steps");
    const bool replay = o.flag("replay", "capture the launches of a step as graphs (GPU)");
    o.done();
    expects(samples > 0 && steps > 0, "imagenet_shape: --batch and --steps must be at least 1");
    measure(samples, warmup_steps, steps, replay);
  });
}
