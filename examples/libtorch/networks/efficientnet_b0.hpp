// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// EfficientNet-B0 as torchvision has it, with its names: Tan, Le, arXiv 1905.11946. Inverted
// residual blocks with squeeze-and-excitation, SiLU, and stochastic depth that drops samples by
// LibTorch's generator. 224 x 224 pixels in the paper.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include <torch/torch.h>

#include "chain.hpp"

namespace networks {

struct efficientnet_b0_options {
  std::int64_t classes = 1000;
  double dropout = 0.2;
  double stochastic_depth = 0.2;  ///< The last block's probability; that of others is less.
};

/// A convolution, batch norm and, by default, SiLU.
inline std::shared_ptr<chain> convolution_norm(const torch::nn::Conv2dOptions& o,
                                               bool activation = true) {
  auto all = std::make_shared<chain>();
  all->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(o).bias(false)));
  all->push_back(torch::nn::BatchNorm2d(o.out_channels()));
  if (activation) all->push_back(torch::nn::SiLU());
  return all;
}

/// Scales channels by a function of their means: Hu et al., arXiv 1709.01507.
struct squeeze_excitation : torch::nn::Module {
  squeeze_excitation(std::int64_t channels, std::int64_t squeezed)
      : fc1(register_module("fc1", torch::nn::Conv2d(convolution(channels, squeezed, 1)))),
        fc2(register_module("fc2", torch::nn::Conv2d(convolution(squeezed, channels, 1)))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor means = torch::adaptive_avg_pool2d(x, {1, 1});  // (N, C, 1, 1)
    return torch::sigmoid(fc2->forward(torch::silu(fc1->forward(means)))) * x;
  }

  torch::nn::Conv2d fc1, fc2;
};

/// In training leaves out a block for samples drawn with a probability, and scales the others by
/// its complement: Huang et al., arXiv 1603.09382.
inline torch::Tensor stochastic_depth(const torch::Tensor& x, double probability, bool training) {
  if (!training || probability == 0) return x;
  const double survival = 1 - probability;
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x.dim()), 1);
  shape[0] = x.size(0);
  torch::Tensor noise = torch::empty(shape, x.options()).bernoulli_(survival);
  if (survival > 0) noise.div_(survival);
  return x * noise;
}

/// The blocks of a stage.
struct inverted_residual_stage {
  std::int64_t expansion, kernel, stride, inputs, outputs, blocks;
};

struct inverted_residual : torch::nn::Module {
  inverted_residual(const inverted_residual_stage& s, double stochastic_depth_probability)
      : block(std::make_shared<chain>()),
        probability(stochastic_depth_probability),
        has_shortcut(s.stride == 1 && s.inputs == s.outputs) {
    const std::int64_t expanded = s.expansion * s.inputs;
    if (s.expansion != 1) block->push_back(convolution_norm(convolution(s.inputs, expanded, 1)));
    block->push_back(convolution_norm(
        convolution(expanded, expanded, s.kernel, s.stride, s.kernel / 2).groups(expanded)));
    block->push_back(
        std::make_shared<squeeze_excitation>(expanded, std::max<std::int64_t>(1, s.inputs / 4)));
    block->push_back(convolution_norm(convolution(expanded, s.outputs, 1), false));
    register_module("block", block);
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = block->forward(x);
    return has_shortcut ? stochastic_depth(y, probability, is_training()) + x : y;
  }

  std::shared_ptr<chain> block;
  double probability;
  bool has_shortcut;
};

struct efficientnet_b0 : torch::nn::Module {
  explicit efficientnet_b0(efficientnet_b0_options o = {}) {
    constexpr std::array<inverted_residual_stage, 7> stages{{{1, 3, 1, 32, 16, 1},
                                                             {6, 3, 2, 16, 24, 2},
                                                             {6, 5, 2, 24, 40, 2},
                                                             {6, 3, 2, 40, 80, 3},
                                                             {6, 5, 1, 80, 112, 3},
                                                             {6, 5, 2, 112, 192, 4},
                                                             {6, 3, 1, 192, 320, 1}}};
    constexpr double all_blocks = 16;
    features->push_back(convolution_norm(convolution(3, 32, 3, 2, 1)));
    int blocks = 0;
    for (inverted_residual_stage s : stages) {
      auto stage = std::make_shared<chain>();
      for (std::int64_t k = 0; k < s.blocks; ++k) {
        stage->push_back(
            std::make_shared<inverted_residual>(s, o.stochastic_depth * blocks++ / all_blocks));
        s.inputs = s.outputs;
        s.stride = 1;
      }
      features->push_back(stage);
    }
    features->push_back(convolution_norm(convolution(320, 1280, 1)));
    classifier->push_back(torch::nn::Dropout(o.dropout));
    classifier->push_back(torch::nn::Linear(1280, o.classes));
    register_module("features", features);
    register_module("classifier", classifier);
    initialize();
  }

  torch::Tensor forward(const torch::Tensor& images) {
    const torch::Tensor x = torch::adaptive_avg_pool2d(features->forward(images), {1, 1});
    return classifier->forward(torch::flatten(x, 1));  // (N, 1280) -> (N, classes)
  }

  std::shared_ptr<chain> features = std::make_shared<chain>();
  std::shared_ptr<chain> classifier = std::make_shared<chain>();

 private:
  void initialize() {
    for_each_layer(*this, [](auto& layer) {
      if (layer.weight.dim() == 4) {
        torch::nn::init::kaiming_normal_(layer.weight, 0, torch::kFanOut);
      } else {
        const double range = 1 / std::sqrt(static_cast<double>(layer.weight.size(0)));
        layer.weight.uniform_(-range, range);
      }
      if (layer.bias.defined()) layer.bias.zero_();
    });
  }
};

}  // namespace networks
