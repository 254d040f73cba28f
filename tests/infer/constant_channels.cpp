// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A channel whose input is constant has a variance near 0 and whatever mean: its batch norm then
// multiplies by up to 316, and takes off as much. Integers are the simulation there, or refused.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/quantize/program_builder.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/nn/network_fixture.hpp"

using namespace cordee;
using namespace cordee::detail::infer;

namespace {

/// Outputs of bytes, of 32 bits that convolutions read, and of 32 bits before the mean.
using constant_channel_net =
    network<sequential<convolution<4, 1>, batch_norm<relu>,
                       residual<sequential<convolution<4, 1>, batch_norm<relu>, convolution<4, 1>>,
                                batch_norm<>>,
                       residual<convolution<4, 1>, batch_norm<>>, global_average_pool, linear<4>>,
            int8, cpu, direct, extent{1, 4, 4}, 4>;

/// Channel 0 is 1, or what `norm` makes of weight `mean` times 1; the others are the image's.
class constant_channel {
 public:
  void set_channel(const std::string& norm, float mean, float variance, float gamma) {
    set("conv1.weight", {1, 1, 0.8F, 0.6F});
    set("fc.weight", {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
    set("fc.bias", {0, 0, 0, 0});
    for (const std::string number : {"conv1", "0.conv1", "0.conv2", "1.conv1"}) {
      set(number + ".input_min", {0});
      set(number + ".input_max", {1});
      const bool is_first = number == "conv1",
                 is_block = number.ends_with("conv2") || number.starts_with("1");
      if (!is_first)
        set(number + ".weight", {1, 0, 0, 0, 0, 0.3F, 0.1F, 0, 0, 0, 0.3F, 0.1F, 0, 0, 0, 0.3F});
      const std::string bn = norm_of(number);
      set(bn + ".weight", {0, 0.7F, 0.7F, 0.7F});
      set(bn + ".bias", {is_block ? 0.0F : 1.0F, 0.1F, 0.2F, 0.1F});
      set(bn + ".running_mean", {0, 0, 0, 0});
      set(bn + ".running_var", {1, 1, 1, 1});
      if (bn != norm) continue;
      const float sigma = std::sqrt(variance + 1e-5F), wanted = is_block ? -0.4F : 0.6F;
      at(number + ".weight")[0] = mean;
      at(bn + ".weight")[0] = gamma;
      at(bn + ".bias")[0] = 0.25F * wanted;
      at(bn + ".running_mean")[0] = mean - 0.75F * wanted * sigma / gamma;
      at(bn + ".running_var")[0] = variance;
    }
    if (norm == "0.bn1") at("0.bn2.weight")[0] = -1;  // so that the output depends on it
  }
  std::vector<double> simulated(const std::vector<std::uint8_t>& image) {
    fixture_.forward({.pixels = {image.data(), image.size()},
                      .labels = {fixture_.labels.data(), 1},
                      .count = 1,
                      .global_samples = 1},
                     phase::evaluate);
    const auto logits = fixture_.net.logits();
    return {logits.data, logits.data + logits.size};
  }
  std::vector<double> on_integers(const std::vector<std::uint8_t>& image, bool fold) {
    const layer_list list = list_layers(static_cast<const constant_channel_net*>(nullptr), fold);
    program_builder builder(list, fixture_.numbers());
    const integer_program program = builder.build(constant_channel_net::input, {});
    const memory_plan plan(program, plain_sizes(program));
    std::vector<std::byte> memory(plan.size);
    std::vector<std::int32_t> logits(4);
    run_reference<integer_reference<>>(program, plan, memory.data(), image.data(), logits.data());
    std::vector<double> reals;
    for (const std::int32_t logit : logits) reals.push_back(logit * builder.logit_step());
    return reals;
  }

 private:
  static std::string norm_of(std::string convolution) {
    convolution.replace(convolution.find("conv"), 4, "bn");
    return convolution;
  }
  float* at(const std::string& name) {
    for (const segment& s : constant_channel_net::segments())
      if (s.name == name) return fixture_.weights().data + s.offset;
    FAIL("no segment ", name);
    return nullptr;
  }
  void set(const std::string& name, const std::vector<float>& values) {
    std::copy(values.begin(), values.end(), at(name));
  }

  network_fixture<constant_channel_net> fixture_{1};
};

}  // namespace

TEST_CASE("constant channels: integers are simulated inference, or refused by the layer's name") {
  constant_channel net;
  std::vector<std::uint8_t> image;
  for (int i = 0; i < 16; ++i) image.push_back(static_cast<std::uint8_t>(37 * i % 256));
  for (const std::string norm : {"0.bn1", "0.bn2", "1.bn1"})
    for (const bool fold : {true, false}) {
      int refused = 0, equal = 0;
      for (const float variance : {0.0F, 1e-8F, 1e-5F, 1.0F})
        for (const float gamma : {1.0F, -0.5F, 0.01F})
          for (float mean = 0.25F; std::abs(mean) < 3e7F; mean *= mean > 0 ? -1.0F : -3.0F) {
            CAPTURE(norm);
            CAPTURE(fold);
            CAPTURE(variance);
            CAPTURE(gamma);
            const float size = std::abs(mean);
            CAPTURE(mean);
            net.set_channel(norm, mean, variance, gamma);
            const std::vector<double> simulated = net.simulated(image);
            std::vector<double> integers;
            try {
              integers = net.on_integers(image, fold);
            } catch (const error& e) {
              const std::string name =
                  std::string(norm).replace(norm.find("bn"), 2, fold ? "conv" : "bn");
              CHECK(std::string(e.what()).starts_with("layer \"" + name + "\" has no form"));
              if (fold) CHECK(size > 50);
              ++refused;
              continue;
            }
            ++equal;
            // A step of bytes, eight roundings of floats in the simulation, and, of 18 bits
            // before the mean, half of what is refused.
            const double factor = std::abs(static_cast<double>(gamma)) / std::sqrt(variance + 1e-5);
            const double of_channel = 0x1p-21 * static_cast<double>(size) * factor +
                                      (norm == "1.bn1" && !fold ? 1.1 / 64 : 0);
            for (std::size_t k = 0; k < 4; ++k)
              CHECK(std::abs(integers[k] - simulated[k]) <= 1.0 / 255 + (k == 0 ? of_channel : 0));
          }
      CHECK(refused > 50);
      CHECK(equal > (fold ? 150 : 40));
    }
}
