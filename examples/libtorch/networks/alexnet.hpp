// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// AlexNet as torchvision has it, with its names: the form of Krizhevsky, "One weird trick for
// parallelizing convolutional neural networks", arXiv 1404.5997, of one column and without local
// response normalization. Images of at least 63 x 63 pixels; 224 x 224 in the paper.
#pragma once

#include <cstdint>

#include <torch/torch.h>

#include "chain.hpp"

namespace networks {

struct alexnet_options {
  std::int64_t classes = 1000;
  double dropout = 0.5;
};

struct alexnet : torch::nn::Module {
  explicit alexnet(alexnet_options o = {}) {
    using namespace torch::nn;
    features->push_back(Conv2d(convolution(3, 64, 11, 4, 2)));
    features->push_back(relu());
    features->push_back(MaxPool2d(max_pool(3, 2)));
    features->push_back(Conv2d(convolution(64, 192, 5, 1, 2)));
    features->push_back(relu());
    features->push_back(MaxPool2d(max_pool(3, 2)));
    features->push_back(Conv2d(convolution(192, 384, 3, 1, 1)));
    features->push_back(relu());
    features->push_back(Conv2d(convolution(384, 256, 3, 1, 1)));
    features->push_back(relu());
    features->push_back(Conv2d(convolution(256, 256, 3, 1, 1)));
    features->push_back(relu());
    features->push_back(MaxPool2d(max_pool(3, 2)));

    classifier->push_back(Dropout(o.dropout));
    classifier->push_back(Linear(256 * 6 * 6, 4096));
    classifier->push_back(relu());
    classifier->push_back(Dropout(o.dropout));
    classifier->push_back(Linear(4096, 4096));
    classifier->push_back(relu());
    classifier->push_back(Linear(4096, o.classes));

    register_module("features", features);
    register_module("classifier", classifier);
  }

  torch::Tensor forward(const torch::Tensor& images) {
    const torch::Tensor x = torch::adaptive_avg_pool2d(features->forward(images), {6, 6});
    return classifier->forward(torch::flatten(x, 1));  // (N, 256*6*6) -> (N, classes)
  }

  std::shared_ptr<chain> features = std::make_shared<chain>();
  std::shared_ptr<chain> classifier = std::make_shared<chain>();
};

}  // namespace networks
