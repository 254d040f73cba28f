// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Layers of the ResNets that train, from their own tables of parameters.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cordee/comm/simulated/step.hpp>
#include <cordee/cordee.hpp>

#include "memory.hpp"
#include "processors.hpp"

namespace plan {

using namespace cordee;

/// For one image, in the forward pass: multiply-adds of a tensor's layer, and numbers that it
/// writes; zero for tensors that are not weights of a convolution or linear layer.
struct layer {
  segment tensor;
  double macs = 0, outputs = 0;
};

/// The side of a tensor's output: ImageNet's stages have 56, 28, 14 and 7 (the stem 112), CIFAR's
/// 32, 16 and 8. In a stage's first bottleneck the second convolution has the stride.
inline int output_side(std::string_view name, bool imagenet, bool bottlenecks) {
  if (!name.starts_with("layer")) return imagenet ? 112 : 32;
  const int stage = name[5] - '1';
  const int side = (imagenet ? 56 : 32) >> stage;
  const bool before_stride = bottlenecks && stage > 0 && name.substr(6).starts_with(".0.conv1");
  return before_stride ? 2 * side : side;
}

/// A network's trainable layers. Throws where the multiply-adds differ from the network's own.
template <class Net>
std::vector<layer> layers_of(bool bottlenecks) {
  std::vector<layer> all;
  double macs = 0;
  for (const segment& s : Net::segments()) {
    if (s.kind == kind::statistic) break;
    layer l{s};
    if (s.kind == kind::weight && s.shape[1] > 0) {
      const int side =
          s.shape[2] == 0 ? 1 : output_side(s.name, Net::input.height > 32, bottlenecks);
      l.macs = static_cast<double>(s.size) * side * side;
      l.outputs = static_cast<double>(s.shape[0]) * side * side;
    }
    macs += l.macs;
    all.push_back(l);
  }
  if (macs != static_cast<double>(Net::macs()))
    throw error(concat("plan: ", macs, " multiply-adds counted, of ", Net::macs()));
  return all;
}

struct network {
  std::string_view name;
  std::vector<layer> (*layers)(bool);
  bool bottlenecks;
  double images;  // of an epoch of the data set that it is for
  void (*visit)(int width, int samples, const layout_visitor&);

  [[nodiscard]] std::vector<layer> table() const { return layers(bottlenecks); }
};
inline const std::vector<network>& networks() {
  static constexpr double imagenet = 1'281'167, cifar = 50'000;
  static const std::vector<network> all{
      {"resnet20", layers_of<resnet<20, fp32, cpu>>, false, cifar, visit_layout<20>},
      {"resnet56", layers_of<resnet<56, fp32, cpu>>, false, cifar, visit_layout<56>},
      {"resnet18", layers_of<resnet<18, fp32, cpu>>, false, imagenet, visit_layout<18>},
      {"resnet34", layers_of<resnet<34, fp32, cpu>>, false, imagenet, visit_layout<34>},
      {"resnet50", layers_of<resnet<50, fp32, cpu>>, true, imagenet, visit_layout<50>},
      {"resnet101", layers_of<resnet<101, fp32, cpu>>, true, imagenet, visit_layout<101>},
      {"resnet152", layers_of<resnet<152, fp32, cpu>>, true, imagenet, visit_layout<152>}};
  return all;
}

/// One rank's step on `images` images. A number that a convolution writes is read and written 5.5
/// times by a forward pass with batch norm and ReLU in passes of their own, and 10.6 times by
/// backward (of ResNet-50: 123 and 235 MB an image in 16 bits, at 11.1 million numbers). The
/// optimizer reads and writes five planes of masters: LARS with momentum.
inline step_profile estimate_step(const processor& p, const efficiency& e,
                                  std::span<const layer> layers, int images, int bytes_a_number) {
  step_profile step;
  double parameters = 0;
  for (const layer& l : layers) {
    const double macs = l.macs * images, outputs = l.outputs * images;
    const bool first = step.table.empty();  // the images have no gradient
    step.forward +=
        l.macs == 0 ? 0 : roofline_seconds(p, e, bytes_a_number, 2 * macs, 5.5 * outputs, 1);
    step.backward.push_back(
        l.macs == 0
            ? 0
            : roofline_seconds(p, e, bytes_a_number, (first ? 2 : 4) * macs, 10.6 * outputs, 2));
    step.table.push_back(l.tensor);
    parameters += static_cast<double>(l.tensor.size);
  }
  step.optimizer = roofline_seconds(p, e, 4, 0, 5 * parameters, 3);
  return step;
}

}  // namespace plan
