// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// GoogLeNet as torchvision has it, with its names: Szegedy et al., "Going Deeper with
// Convolutions", arXiv 1409.4842, with batch norm instead of biases, and without local response
// normalization. In the branch of the paper's 5 x 5 convolutions torchvision has 3 x 3 ones.
// Images of at least 15 x 15 pixels; 224 x 224 in the paper.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "chain.hpp"

namespace networks {

struct googlenet_options {
  std::int64_t classes = 1000;
  bool auxiliary_heads = true;      ///< For training; evaluation leaves them out.
  bool transform_input = false;     ///< From torchvision's normalization to that of 0.5 and 0.5.
  std::int64_t branch3_kernel = 3;  ///< torchvision's; 5 is the paper's.
  double dropout = 0.2;
  double auxiliary_dropout = 0.7;
};

/// A convolution, batch norm and ReLU.
struct basic_convolution : torch::nn::Module {
  explicit basic_convolution(torch::nn::Conv2dOptions o)
      : conv(register_module("conv", torch::nn::Conv2d(o.bias(false)))),
        bn(register_module("bn", torch::nn::BatchNorm2d(
                                     torch::nn::BatchNorm2dOptions(o.out_channels()).eps(1e-3)))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = bn->forward(conv->forward(x));
    return y.relu_();
  }

  torch::nn::Conv2d conv;
  torch::nn::BatchNorm2d bn;
};

/// Channels of an inception module.
struct inception_channels {
  std::int64_t inputs, branch1, reduced2, branch2, reduced3, branch3, branch4;
};

struct inception : torch::nn::Module {
  inception(inception_channels c, std::int64_t kernel3) {
    using std::make_shared;
    branches[0]->push_back(make_shared<basic_convolution>(convolution(c.inputs, c.branch1, 1)));
    branches[1]->push_back(make_shared<basic_convolution>(convolution(c.inputs, c.reduced2, 1)));
    branches[1]->push_back(
        make_shared<basic_convolution>(convolution(c.reduced2, c.branch2, 3, 1, 1)));
    branches[2]->push_back(make_shared<basic_convolution>(convolution(c.inputs, c.reduced3, 1)));
    branches[2]->push_back(make_shared<basic_convolution>(
        convolution(c.reduced3, c.branch3, kernel3, 1, kernel3 / 2)));
    branches[3]->push_back(torch::nn::MaxPool2d(max_pool(3, 1, 1, true)));
    branches[3]->push_back(make_shared<basic_convolution>(convolution(c.inputs, c.branch4, 1)));
    register_module("branch1", branches[0]->ptr(0));  // a convolution alone, not a row of one
    register_module("branch2", branches[1]);
    register_module("branch3", branches[2]);
    register_module("branch4", branches[3]);
  }

  torch::Tensor forward(const torch::Tensor& x) {
    std::vector<torch::Tensor> outputs;
    for (const auto& branch : branches) outputs.push_back(branch->forward(x));
    return torch::cat(outputs, 1);
  }

  std::array<std::shared_ptr<chain>, 4> branches{
      std::make_shared<chain>(), std::make_shared<chain>(), std::make_shared<chain>(),
      std::make_shared<chain>()};
};

struct auxiliary_head : torch::nn::Module {
  auxiliary_head(std::int64_t inputs, std::int64_t classes, double dropout_rate)
      : conv(register_module("conv",
                             std::make_shared<basic_convolution>(convolution(inputs, 128, 1)))),
        fc1(register_module("fc1", torch::nn::Linear(128 * 4 * 4, 1024))),
        fc2(register_module("fc2", torch::nn::Linear(1024, classes))),
        dropout(register_module("dropout", torch::nn::Dropout(dropout_rate))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor pooled = torch::adaptive_avg_pool2d(x, {4, 4});
    const torch::Tensor hidden = fc1->forward(torch::flatten(conv->forward(pooled), 1));
    return fc2->forward(dropout->forward(torch::relu(hidden)));
  }

  std::shared_ptr<basic_convolution> conv;
  torch::nn::Linear fc1, fc2;
  torch::nn::Dropout dropout;
};

struct googlenet : torch::nn::Module {
  /// The heads' logits are undefined in evaluation, and without heads.
  struct output {
    torch::Tensor logits, auxiliary2, auxiliary1;
  };

  explicit googlenet(googlenet_options own = {}) : options(own) {
    const auto convolution_of = [this](const char* name, torch::nn::Conv2dOptions o) {
      return register_module(name, std::make_shared<basic_convolution>(std::move(o)));
    };
    const auto inception_of = [this](const char* name, inception_channels c) {
      return register_module(name, std::make_shared<inception>(c, options.branch3_kernel));
    };
    conv1 = convolution_of("conv1", convolution(3, 64, 7, 2, 3));
    conv2 = convolution_of("conv2", convolution(64, 64, 1));
    conv3 = convolution_of("conv3", convolution(64, 192, 3, 1, 1));
    inception3a = inception_of("inception3a", {192, 64, 96, 128, 16, 32, 32});
    inception3b = inception_of("inception3b", {256, 128, 128, 192, 32, 96, 64});
    inception4a = inception_of("inception4a", {480, 192, 96, 208, 16, 48, 64});
    inception4b = inception_of("inception4b", {512, 160, 112, 224, 24, 64, 64});
    inception4c = inception_of("inception4c", {512, 128, 128, 256, 24, 64, 64});
    inception4d = inception_of("inception4d", {512, 112, 144, 288, 32, 64, 64});
    inception4e = inception_of("inception4e", {528, 256, 160, 320, 32, 128, 128});
    inception5a = inception_of("inception5a", {832, 256, 160, 320, 32, 128, 128});
    inception5b = inception_of("inception5b", {832, 384, 192, 384, 48, 128, 128});
    if (options.auxiliary_heads) {
      const auto head_of = [this](const char* name, std::int64_t inputs) {
        return register_module(name, std::make_shared<auxiliary_head>(inputs, options.classes,
                                                                      options.auxiliary_dropout));
      };
      aux1 = head_of("aux1", 512);
      aux2 = head_of("aux2", 528);
    }
    dropout = register_module("dropout", torch::nn::Dropout(options.dropout));
    fc = register_module("fc", torch::nn::Linear(1024, options.classes));
    // torchvision truncates at 2, which is 200 deviations: that truncates nothing.
    for_each_layer(*this, [](auto& layer) { layer.weight.normal_(0, 0.01); });
  }

  output forward(const torch::Tensor& images) {
    output out;
    torch::Tensor x = options.transform_input ? transformed(images) : images;
    x = pooled(conv1->forward(x), 3);                   // (N,   64, 56, 56) of 224 x 224 pixels
    x = pooled(conv3->forward(conv2->forward(x)), 3);   // (N,  192, 28, 28)
    x = inception3b->forward(inception3a->forward(x));  // (N,  480, 28, 28)
    x = inception4a->forward(pooled(x, 3));             // (N,  512, 14, 14)
    if (aux1 && is_training()) out.auxiliary1 = aux1->forward(x);
    x = inception4c->forward(inception4b->forward(x));
    x = inception4d->forward(x);  // (N,  528, 14, 14)
    if (aux2 && is_training()) out.auxiliary2 = aux2->forward(x);
    x = inception4e->forward(x);             // (N,  832, 14, 14)
    x = inception5a->forward(pooled(x, 2));  // (N,  832,  7,  7)
    x = inception5b->forward(x);             // (N, 1024,  7,  7)
    x = torch::flatten(torch::adaptive_avg_pool2d(x, {1, 1}), 1);
    out.logits = fc->forward(dropout->forward(x));
    return out;
  }

  googlenet_options options;
  std::shared_ptr<basic_convolution> conv1, conv2, conv3;
  std::shared_ptr<inception> inception3a, inception3b, inception4a, inception4b, inception4c,
      inception4d, inception4e, inception5a, inception5b;
  std::shared_ptr<auxiliary_head> aux1, aux2;
  torch::nn::Dropout dropout{nullptr};
  torch::nn::Linear fc{nullptr};

 private:
  static torch::Tensor pooled(const torch::Tensor& x, std::int64_t kernel) {
    return torch::max_pool2d(x, kernel, 2, 0, 1, true);
  }
  static torch::Tensor transformed(const torch::Tensor& x) {
    const auto row = [&](double r, double g, double b) {
      return torch::tensor({r, g, b}, x.options()).reshape({1, 3, 1, 1});
    };
    return x * row(0.229 / 0.5, 0.224 / 0.5, 0.225 / 0.5) +
           row((0.485 - 0.5) / 0.5, (0.456 - 0.5) / 0.5, (0.406 - 0.5) / 0.5);
  }
};

}  // namespace networks
