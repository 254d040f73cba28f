// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The ResNet-20 of example int8 as an ONNX file, and its logits of Fashion-MNIST's 10,000 test
// images, simulated and on integers, for fashion_mnist.py, which compares them with onnxruntime's.
//
//   onnx_fashion_mnist DATA BITS FOLDER [WEIGHTS]
//
// DATA is the folder of the idx files; where it has no training images, the test images serve as
// such. BITS, those of a weight, are 8, 4 or 2, or 32: fp32, which has no logits on integers and no
// step. WEIGHTS is a file that example int8 saved: one of fp32 is calibrated on ten batches (PTQ)
// for other BITS. Without it the network is trained on 2,000 images.
// Writes to FOLDER
//
//   net.onnx
//   pixels      bytes of (samples, 28, 28)         labels      bytes of (samples)
//   normalized  floats of (256), by byte           simulated   floats of (samples, classes)
//
// and what integer_form.hpp writes.
#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/comm/transports/self_comm.hpp>
#include <cordee/data/idx.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/normalize.hpp>
#include <cordee/infer/onnx.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/train/int8/calibrate.hpp>
#include <cordee/train/trainer.hpp>
#include <cordee/train/weights.hpp>

#include "tests/onnx/integer_form.hpp"

using namespace cordee;

namespace {

/// The training images, or the test images in a folder without.
idx training_images(const std::filesystem::path& data) {
  const auto named = [&](const std::string& part) {
    return idx{(data / (part + "-images-idx3-ubyte")).string(),
               (data / (part + "-labels-idx1-ubyte")).string()};
  };
  const auto images = data / "train-images-idx3-ubyte";
  const bool has_them =
      std::filesystem::exists(images) || std::filesystem::exists(images.string() + ".gz");
  return named(has_them ? "train" : "t10k");
}

/// Whether the weights come without ranges.
template <class Run>
bool lacks_ranges(Run& run) {
  return std::ranges::any_of(run.segments(), [&](const segment& s) {
    return s.name.ends_with(".input_min") && !std::isfinite(run.weights()[s.offset]);
  });
}

template <Precision P>
void export_network(const std::string& data, const std::string& folder,
                    const std::string& weights) {
  using network = resnet<20, P, cpu, resnet_options{.image = {1, 28, 28}, .zero_gamma = false}>;
  const idx test{data + "/t10k-images-idx3-ubyte", data + "/t10k-labels-idx1-ubyte"};
  const idx training = training_images(data);
  const normalize measured = normalize::measured(training);
  const normalization pixel = measured;
  constexpr std::size_t size = network::input.size(), classes = network::classes;
  const std::size_t samples = test.size();
  std::vector<std::uint8_t> pixels(samples * size), labels;
  for (std::size_t i = 0; i < samples; ++i)
    labels.push_back(
        static_cast<std::uint8_t>(test.read(i, std::span(pixels).subspan(i * size, size))));

  network net;
  trainer run{net, sgd{.momentum = 0.9}, [](double) { return 0.05; }, solo{}};
  if (weights.empty()) {
    loader feed{training, self_comm{}, {.global_batch = 25}, {}, measured};
    run.fit(feed, 2000.0 / static_cast<double>(training.size()));
  } else {
    run.load(weights);
  }
  if constexpr (!std::same_as<P, fp32>) {
    if (lacks_ranges(run)) {
      loader feed{training, self_comm{}, {.global_batch = 128}, {}, measured};
      calibrate(run, feed, 10);
    }
  }
  run.with_mean_model([&] {
    write_onnx(folder + "/net.onnx", net, run.weights());
    std::vector<float> simulated;
    constexpr std::size_t most = 250;
    for (std::size_t n = 0; n < samples; n += most) {
      const std::size_t count = std::min(most, samples - n);
      const std::vector<std::int32_t> none(count);
      net.forward(run.packed_parameters(), run.weights(),
                  batch<cpu>{{pixels.data() + n * size, count * size},
                             {none.data(), count},
                             static_cast<int>(count),
                             static_cast<std::int64_t>(count),
                             1,
                             pixel},
                  phase::evaluate, run.compute());
      simulated.insert(simulated.end(), net.logits().data, net.logits().data + count * classes);
    }
    write(folder + "/simulated", std::span<const float>(simulated));
    if constexpr (!std::same_as<P, fp32>) {
      export_integers<network>(folder, run.weights(), pixel, pixels);
    }
    return 0;
  });
  std::vector<float> normalized;
  for (int byte = 0; byte < 256; ++byte)
    normalized.push_back((static_cast<float>(byte) / 255 - pixel.mean[0]) * pixel.scale[0]);
  write(folder + "/normalized", std::span<const float>(normalized));
  write(folder + "/pixels", std::span<const std::uint8_t>(pixels));
  write(folder + "/labels", std::span<const std::uint8_t>(labels));
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() != 3 && arguments.size() != 4)
    throw usage_error("DATA BITS FOLDER [WEIGHTS]");
  const std::string &data = arguments[0], bits = arguments[1], folder = arguments[2],
                    weights = arguments.size() == 4 ? arguments[3] : "";
  if (bits == "4")
    export_network<low_bit_weights<4>>(data, folder, weights);
  else if (bits == "2")
    export_network<low_bit_weights<2>>(data, folder, weights);
  else if (bits == "32")
    export_network<fp32>(data, folder, weights);
  else
    export_network<int8>(data, folder, weights);
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "onnx_fashion_mnist: %s\n", e.what());
  return 1;
}
