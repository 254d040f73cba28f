// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A network as an ONNX file, and its logits, for check.py, which compares them with onnxruntime's.
//
//   onnx_export NETWORK IMAGES FOLDER
//
// NETWORK is resnet20, resnet18, resnet50, resnet20_int8, resnet20_4bit, resnet20_2bit,
// resnet18_int8 or resnet50_int8. IMAGES are bytes of (samples, 3, side, side), 32 pixels a side
// for a ResNet-20, 64 for resnet18_int8 and resnet50_int8, else 224. Networks of ten classes are
// trained on them, image k being of class k % 10; the weights of others are random, running
// statistics those of the images. Writes net.onnx and logits, floats of (samples, classes), to
// FOLDER; of a quantized network also what integer_form.hpp writes.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/comm/transports/self_comm.hpp>
#include <cordee/core/random.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/normalize.hpp>
#include <cordee/infer/onnx.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/onnx/integer_form.hpp"

using namespace cordee;

namespace {

constexpr normalize imagenet{.mean = {0.485, 0.456, 0.406}, .deviation = {0.229, 0.224, 0.225}};

/// Image k is of class k % 10.
struct image_bytes {
  extent side;
  int class_count;
  std::span<const std::uint8_t> pixels;

  [[nodiscard]] extent image() const { return side; }
  [[nodiscard]] int classes() const { return class_count; }
  [[nodiscard]] std::size_t size() const { return pixels.size() / side.size(); }
  int read(std::size_t i, std::span<std::uint8_t> to) const {
    std::ranges::copy(pixels.subspan(i * to.size(), to.size()), to.begin());
    return static_cast<int>(i % 10);
  }
};

template <class Run>
void perturb(Run& run) {
  random_sequence random(1, purpose::test, 0, 0);
  for (const segment& s : run.segments())
    if (s.kind == kind::scale || s.kind == kind::shift || s.kind == kind::bias)
      for (std::size_t i = 0; i < s.size; ++i)
        run.weights()[s.offset + i] =
            static_cast<float>((s.kind == kind::scale ? 1 : 0) + 0.2 * random.normal());
  run.adopt_weights();
}

/// Changes the classifier's bias so that the logits of a class are zero on average: the images then
/// have different classes.
template <class Run>
void center_logits(Run& run, std::size_t samples) {
  const std::size_t classes = Run::model_type::classes;
  const segment& bias = run.segments()[Run::model_type::tensors() - 1];
  const auto logits = run.model().logits();
  for (std::size_t i = 0; i < logits.size; ++i)
    run.weights()[bias.offset + i % classes] -= logits[i] / static_cast<float>(samples);
  run.adopt_weights();
}

template <class N>
int export_network(const std::string& images, const std::string& folder) {
  std::ifstream in(images, std::ios::binary);
  const std::vector<std::uint8_t> pixels{std::istreambuf_iterator<char>(in),
                                         std::istreambuf_iterator<char>()};
  const std::size_t samples = pixels.size() / N::input.size();
  if (samples == 0) throw error("no images in " + images);
  const std::vector<std::int32_t> labels(samples);
  const batch<cpu> all{{pixels.data(), pixels.size()},
                       {labels.data(), samples},
                       static_cast<int>(samples),
                       static_cast<std::int64_t>(samples),
                       1,
                       imagenet};
  N net;
  trainer run{net, sgd{.momentum = 0.9}, [](double) { return 0.02; }, solo{}};
  const image_bytes data{N::input, N::classes, pixels};
  if constexpr (N::classes == 10) {
    loader feed{data, self_comm{}, {.global_batch = 32}, {}, imagenet};
    run.fit(feed, 5);
  } else {
    perturb(run);
    for (int k = 0; k < 8; ++k)
      net.forward(run.packed_parameters(), run.weights(), all, phase::train, run.compute());
  }
  for (int k = 0; k < 2; ++k) {
    if (k > 0 && N::classes > 10) center_logits(run, samples);
    net.forward(run.packed_parameters(), run.weights(), all, phase::evaluate, run.compute());
  }
  run.with_mean_model([&] {
    write_onnx(folder + "/net.onnx", net, run.weights());
    if constexpr (Quantized<typename N::precision>) {
      export_integers<N>(folder, run.weights(), imagenet, pixels);
    }
    return 0;
  });
  write(folder + "/logits", std::span<const float>(net.logits().data, net.logits().size));
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() != 3) throw usage_error("NETWORK IMAGES FOLDER");
  if (arguments[0] == "resnet20")
    return export_network<resnet<20, fp32, cpu>>(arguments[1], arguments[2]);
  if (arguments[0] == "resnet20_int8")
    return export_network<resnet<20, int8, cpu>>(arguments[1], arguments[2]);
  if (arguments[0] == "resnet20_4bit")
    return export_network<resnet<20, low_bit_weights<4>, cpu>>(arguments[1], arguments[2]);
  if (arguments[0] == "resnet20_2bit")
    return export_network<resnet<20, low_bit_weights<2>, cpu>>(arguments[1], arguments[2]);
  if (arguments[0] == "resnet18_int8")
    return export_network<
        resnet<18, int8, cpu, resnet_options{.image = {3, 64, 64}, .classes = 10}>>(arguments[1],
                                                                                    arguments[2]);
  if (arguments[0] == "resnet50_int8")
    return export_network<
        resnet<50, int8, cpu, resnet_options{.image = {3, 64, 64}, .classes = 10}>>(arguments[1],
                                                                                    arguments[2]);
  if (arguments[0] == "resnet18")
    return export_network<resnet<18, fp32, cpu>>(arguments[1], arguments[2]);
  return export_network<resnet<50, fp32, cpu>>(arguments[1], arguments[2]);
} catch (const std::exception& e) {
  std::fprintf(stderr, "onnx_export: %s\n", e.what());
  return 1;
}
