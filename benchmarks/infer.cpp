// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Inference on integers alone compared with our own fp32: ResNet-20 on CIFAR's images and ResNet-50
// on ImageNet's, one image and a batch. Figures are minima over the repetitions, in turn, behind
// one that is not timed; both read the bytes of images and have their weights packed.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <cordee/core/random.hpp>
#include <cordee/device/arena.hpp>
#include <cordee/infer/integer_network.hpp>
#include <cordee/infer/onnx.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/int8.hpp>

#include "benchmarks/options.hpp"

namespace {

using namespace cordee;

struct options {
  int reps = 20, threads = 1, batch = 128, depth = 20;
  int write = 0;
};

constexpr const char* usage =
    "infer: a network on integers alone against fp32\n"
    "  --depth N     20 or 50                          (20)\n"
    "  --batch N     samples, beside one image         (128)\n"
    "  --reps N      repetitions, minima are printed   (20)\n"
    "  --threads N   workers                           (1)\n"
    "  --write 1     only write fp32.onnx and int8.onnx to this folder, for onnxruntime_infer.py\n"
    "  --help        this\n";

/// Initial weights of `To`, which is in int8, of those of `From`; every layer's range is 0 .. 4.
template <class From, class To>
std::vector<float> plane_of(const float* weights) {
  std::vector<float> plane(To::plane_size());
  for (const segment& to : To::segments()) {
    float* const at = plane.data() + to.offset;
    if (to.name.ends_with("input_min") || to.name.ends_with("input_max"))
      *at = to.name.ends_with("input_max") ? 4.0F : to.name.starts_with("conv1") ? -2.0F : 0.0F;
    for (const segment& from : From::segments())
      if (from.name == to.name) std::copy_n(weights + from.offset, from.size, at);
  }
  return plane;
}

/// What integer networks multiply bytes by, in this build and process.
const char* byte_products() {
  if (CORDEE_ABI_AMX && detail::ops::tiles_permitted()) return "by AMX's tdpbusd";
  return detail::ops::byte_dots ? "by vpdpbusd" : "without vpdpbusd";
}

template <int Depth>
void compare(const options& o) {
  using full = resnet<Depth, fp32, cpu, resnet_options{.zero_gamma = false}>;
  using bytes = resnet<Depth, int8, cpu, resnet_options{.zero_gamma = false}>;
  const cpu device(o.threads);
  full net{device};
  arena<float, cpu> memory(device, full::segments(), 1);
  net.initialize(memory.plane(0), 1);
  auto packed = net.make_packed_parameters();
  const auto s = device.make_stream();
  net.pack_parameters(memory.plane(0), packed, s);
  const normalization norm{{0.5F, 0.5F, 0.5F, 0}, {4, 4, 4, 1}};
  const std::vector<float> quantized = plane_of<full, bytes>(memory.plane(0).data);
  if (o.write != 0) {
    write_onnx("fp32.onnx", net, memory.plane(0));
    write_onnx("int8.onnx", bytes{device},
               span_on<const float, cpu>{quantized.data(), quantized.size()});
    return;
  }
  auto integers = integer_network::from<bytes>(quantized, norm, device);
  for (const int n : {1, o.batch}) {
    const auto count = static_cast<std::size_t>(n);
    std::vector<std::uint8_t> pixels(count * full::input.size());
    random_sequence draw(1, purpose::test, 0, 0);
    for (auto& p : pixels) p = static_cast<std::uint8_t>(draw.below(256));
    const std::vector<std::int32_t> labels(count);
    std::vector<std::int32_t> logits(count * integers.classes());
    const batch<cpu> all{.pixels = {pixels.data(), pixels.size()},
                         .labels = {labels.data(), labels.size()},
                         .count = n,
                         .global_samples = n,
                         .normalization = norm};
    double best[2] = {1e9, 1e9};
    for (int rep = -1; rep < o.reps; ++rep) {  // the first one is a warm-up
      const double t0 = bench::now();
      net.forward(packed, memory.plane(0), all, phase::evaluate, s);
      const double t1 = bench::now();
      integers.run(pixels, logits);
      const double t2 = bench::now();
      if (rep < 0) continue;
      best[0] = std::min(best[0], t1 - t0);
      best[1] = std::min(best[1], t2 - t1);
    }
    std::printf(
        "ResNet-%d batch %3d  fp32 %9.3f ms %9.1f images/s  integers %9.3f ms %9.1f images/s"
        "  %.2fx\n",
        Depth, n, 1e3 * best[0], n / best[0], 1e3 * best[1], n / best[1], best[0] / best[1]);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  options o;
  bench::read_options(argc, argv, usage,
                      {{"--reps", &o.reps},
                       {"--threads", &o.threads},
                       {"--batch", &o.batch},
                       {"--depth", &o.depth},
                       {"--write", &o.write}});
  std::printf("%d thread(s), %.*s, bytes %s, %d repetitions\n", o.threads,
              static_cast<int>(detail::ops::isa.size()), detail::ops::isa.data(), byte_products(),
              o.reps);
  if (o.depth == 50)
    compare<50>(o);
  else
    compare<20>(o);
  return 0;
}
