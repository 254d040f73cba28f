// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The C++ side of docs/python.md for guide.py, in the current folder: a ResNet-20 whose logits of
// image.bytes, (3, 32, 32), Python repeats.
//
//   torchvision_guide write     writes resnet20.safetensors and the logits, 32-bit floats
//   torchvision_guide read      loads converted.safetensors and writes its logits
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/core/random.hpp>
#include <cordee/data/normalize.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/train/trainer.hpp>
#include <cordee/train/weights.hpp>

using namespace cordee;

int main(int argc, char** argv) try {
  const bool writes = argc == 2 && std::strcmp(argv[1], "write") == 0;
  resnet<20, fp32, cpu, resnet_options{.classes = 3}> net;
  trainer run{net, sgd{}, [](double) { return 0.1; }, solo{}};
  if (writes) {
    random_sequence random(1, purpose::test, 0, 0);
    for (const segment& s : run.segments())
      for (std::size_t i = 0; i < s.size; ++i) {  // variances and scales stay positive
        float& x = run.weights()[s.offset + i];
        x = static_cast<float>((x == 0 ? 0.2 : x) * (1 + 0.5 * (random.uniform() - 0.5)));
      }
    run.adopt_weights();
    run.save("resnet20.safetensors", {{"network", "resnet20"},
                                      {"mean", "0.4914 0.4822 0.4465"},
                                      {"deviation", "0.2470 0.2435 0.2616"},
                                      {"classes", "cat\ndog\nship"}});
  } else if (!run.load("converted.safetensors").empty()) {
    throw error("converted.safetensors lacks tensors of the network");
  }
  std::ifstream in("image.bytes", std::ios::binary);
  const std::vector<std::uint8_t> pixels{std::istreambuf_iterator<char>(in), {}};
  const std::vector<std::int32_t> labels(1);
  const batch<cpu> image{
      {pixels.data(), pixels.size()}, {labels.data(), 1}, 1, 1, 1, normalize::cifar10()};
  if (pixels.size() != decltype(net)::input.size()) throw error("image.bytes is missing");
  net.forward(run.packed_parameters(), run.weights(), image, phase::evaluate, run.compute());
  const auto logits = net.logits();
  std::ofstream out("logits", std::ios::binary);
  out.write(reinterpret_cast<const char*>(logits.data),
            static_cast<std::streamsize>(logits.size * sizeof(float)));
  return out ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "torchvision_guide: %s\n", e.what());
  return 1;
}
