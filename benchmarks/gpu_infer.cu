// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Inference on integers alone on one GPU: ResNet-20 on CIFAR's images and ResNet-50 on ImageNet's,
// one image and a batch, launched and replayed as a graph, a line of JSON each. `within` is whether
// the logits are the CPU's to the bit. Times are the GPU's, minima over the repetitions.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <cordee/cordee.hpp>
#include <cordee/infer/integer_network_on.hpp>

#include "examples/options.hpp"

using namespace cordee;

namespace integers {  // named: see gpu_step.cu

constexpr resnet_options options{.zero_gamma = false};
using resnet20 = resnet<20, int8, cpu, options>;
using resnet50 = resnet<50, int8, cpu, options>;

/// Initial weights; every layer's range is 0 .. 4.
template <class N>
std::vector<float> calibrated_plane() {
  std::vector<float> plane(N::plane_size());
  N().initialize({plane.data(), plane.size()}, 1);
  for (const segment& s : N::segments()) {
    if (s.name.ends_with("input_min")) plane[s.offset] = s.name.starts_with("conv1") ? -2.0f : 0.0f;
    if (s.name.ends_with("input_max")) plane[s.offset] = 4.0f;
  }
  return plane;
}

/// Seconds of one call, the least of `reps` times ten of them.
template <class F>
double seconds_of(const gpu& device, gpu::stream s, int reps, const F& f) {
  constexpr int calls = 10;
  double least = 1e9;
  for (int rep = 0; rep < reps; ++rep) {
    const auto begin = device.record_time(s);
    for (int k = 0; k < calls; ++k) f();
    const auto end = device.record_time(s);
    device.finish(s);
    least = std::min(least, device.seconds_between(begin, end) / calls);
  }
  return least;
}

void measure(integer_network net, const char* name, int batch, int reps) {
  const gpu device;
  const gpu::stream s = device.make_stream();
  const integer_network_on on_gpu(net, device, s);
  for (const int n : {1, batch}) {
    const auto count = static_cast<std::size_t>(n);
    std::vector<std::uint8_t> pixels(count * net.image().size());
    random_sequence draw(1, purpose::test, 0, 0);
    for (auto& p : pixels) p = static_cast<std::uint8_t>(draw.below(256));
    std::vector<std::int32_t> wanted(count * net.classes());
    net.run(pixels, wanted);
    buffer<std::uint8_t, gpu> images(device, pixels.size());
    buffer<std::int32_t, gpu> logits(device, wanted.size());
    device.copy(images.span().data, pixels.data(), pixels.size(), s);
    const auto call = [&] { on_gpu.run(images.span(), logits.span(), s); };
    call();  // sizes the stream's memory
    const bool equal = copy_to_host<std::int32_t, gpu>(device, logits.span(), s) == wanted;
    const double launched = seconds_of(device, s, reps, call);
    const auto graph = device.capture(s, call);
    device.clear(logits.span().data, wanted.size() * sizeof(std::int32_t), s);
    const double replayed = seconds_of(device, s, reps, [&] { device.replay(graph, s); });
    const bool equal_replayed = copy_to_host<std::int32_t, gpu>(device, logits.span(), s) == wanted;
    std::printf(
        "{\"net\": \"%s\", \"batch\": %d, \"images_per_second\": %.1f, "
        "\"replayed\": %.1f, \"within\": %s}\n",
        name, n, n / launched, n / replayed, equal && equal_replayed ? "true" : "false");
  }
}

}  // namespace integers

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "gpu_infer: networks on integers alone");
    const int batch = o.positive("batch", 128, "images, beside one");
    const int reps = o.positive("reps", 5, "repetitions");
    o.done();
    using namespace integers;
    measure(integer_network::from<resnet20>(calibrated_plane<resnet20>(), {}), "ResNet-20", batch,
            reps);
    measure(integer_network::from<resnet50>(calibrated_plane<resnet50>(), {}), "ResNet-50", batch,
            reps);
  });
}
