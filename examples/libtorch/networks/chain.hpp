// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the networks of this folder share: modules in a row, and the initial values of LibTorch's
// layers.
#pragma once

#include <cstdint>
#include <memory>

#include <torch/torch.h>

namespace networks {

/// A Sequential that may be an element of another one, as in Python: its forward is no template.
/// The elements' names are 0, 1, 2...
struct chain : torch::nn::SequentialImpl {
  torch::Tensor forward(const torch::Tensor& x) { return SequentialImpl::forward(x); }
};

inline torch::nn::Conv2dOptions convolution(std::int64_t inputs, std::int64_t outputs,
                                            std::int64_t kernel, std::int64_t stride = 1,
                                            std::int64_t padding = 0) {
  return torch::nn::Conv2dOptions(inputs, outputs, kernel).stride(stride).padding(padding);
}
inline torch::nn::MaxPool2dOptions max_pool(std::int64_t kernel, std::int64_t stride,
                                            std::int64_t padding = 0, bool ceil = false) {
  return torch::nn::MaxPool2dOptions(kernel).stride(stride).padding(padding).ceil_mode(ceil);
}
inline torch::nn::ReLU relu() { return torch::nn::ReLU(torch::nn::ReLUOptions(true)); }

/// Weights of every convolution and linear layer below `root`, by set(module).
template <class Set>
void for_each_layer(torch::nn::Module& root, const Set& set) {
  const torch::NoGradGuard no_grad;
  for (const auto& module : root.modules(false)) {
    if (auto* const c = dynamic_cast<torch::nn::Conv2dImpl*>(module.get())) set(*c);
    if (auto* const l = dynamic_cast<torch::nn::LinearImpl*>(module.get())) set(*l);
  }
}

}  // namespace networks
