// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Network in Network: Lin, Chen, Yan, arXiv 1312.4400, in the authors' form for ImageNet, the
// "NIN-Imagenet" of Caffe's model zoo (train_val.prototxt), with its names, its initial values and
// Caffe's pooling, which rounds up. Each convolution is followed by two of one pixel, and a mean
// over pixels takes the place of linear layers. Images of at least 79 x 79 pixels; 224 x 224 there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <torch/torch.h>

#include "chain.hpp"

namespace networks {

struct network_in_network_options {
  std::int64_t classes = 1000;
  double dropout = 0.5;
};

struct network_in_network : torch::nn::Module {
  explicit network_in_network(network_in_network_options o = {})
      : dropout(register_module("drop", torch::nn::Dropout(o.dropout))) {
    struct layer {
      const char* name;
      std::int64_t inputs, outputs, kernel, stride, padding;
      double deviation;  // of the initial weights
    };
    const std::array<layer, 12> all{{{"conv1", 3, 96, 11, 4, 0, 0.01},
                                     {"cccp1", 96, 96, 1, 1, 0, 0.05},
                                     {"cccp2", 96, 96, 1, 1, 0, 0.05},
                                     {"conv2", 96, 256, 5, 1, 2, 0.05},
                                     {"cccp3", 256, 256, 1, 1, 0, 0.05},
                                     {"cccp4", 256, 256, 1, 1, 0, 0.05},
                                     {"conv3", 256, 384, 3, 1, 1, 0.01},
                                     {"cccp5", 384, 384, 1, 1, 0, 0.05},
                                     {"cccp6", 384, 384, 1, 1, 0, 0.05},
                                     {"conv4-1024", 384, 1024, 3, 1, 1, 0.05},
                                     {"cccp7-1024", 1024, 1024, 1, 1, 0, 0.05},
                                     {"cccp8-1024", 1024, o.classes, 1, 1, 0, 0.01}}};
    const torch::NoGradGuard no_grad;
    for (const layer& l : all) {
      layers.push_back(register_module(
          l.name,
          torch::nn::Conv2d(convolution(l.inputs, l.outputs, l.kernel, l.stride, l.padding))));
      layers.back()->weight.normal_(0, l.deviation);
      layers.back()->bias.zero_();
    }
  }

  torch::Tensor forward(const torch::Tensor& images) {
    torch::Tensor x = images;
    for (std::size_t k = 0; k < layers.size(); ++k) {
      if (k == 3 || k == 6 || k == 9)
        x = torch::max_pool2d(x, 3, 2, 0, 1, true);  // 54 -> 27 -> 13 -> 6
      if (k == 9) x = dropout->forward(x);
      x = torch::relu(layers[k]->forward(x));
    }
    return x.mean({2, 3});  // (N, classes, 6, 6) -> (N, classes)
  }

  std::vector<torch::nn::Conv2d> layers;
  torch::nn::Dropout dropout;
};

}  // namespace networks
