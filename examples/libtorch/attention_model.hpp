// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A causal transformer over characters: pre-norm blocks of attention and two layers (Radford et al.
// 2019). The products of linear layers are computed in their weights' number type, which `use`
// changes before a torch_model is made: bfloat16, with masters of floats.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include <torch/torch.h>

#include <cordee/core/concat.hpp>

namespace examples {

/// x W^T + b, computed in W's number type; in that of x.
inline torch::Tensor product(torch::nn::Linear& layer, const torch::Tensor& x) {
  return layer->forward(x.to(layer->weight.scalar_type())).to(x.scalar_type());
}

/// x + attention(norm(x)), then x + two layers of norm(x).
struct attention_block : torch::nn::Module {
  std::int64_t heads;
  torch::nn::LayerNorm before_attention{nullptr}, before_layers{nullptr};
  torch::nn::Linear query_key_value{nullptr}, mixed{nullptr}, widen{nullptr}, narrow{nullptr};

  attention_block(std::int64_t width, std::int64_t h) : heads(h) {
    const auto norm = [&](const char* name) {
      return register_module(name, torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    };
    const auto linear = [&](const char* name, std::int64_t in, std::int64_t out) {
      return register_module(name, torch::nn::Linear(in, out));
    };
    before_attention = norm("before_attention");
    query_key_value = linear("query_key_value", width, 3 * width);
    mixed = linear("mixed", width, width);
    before_layers = norm("before_layers");
    widen = linear("widen", width, 4 * width);
    narrow = linear("narrow", 4 * width, width);
  }
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& later) {
    const std::int64_t n = x.size(0), length = x.size(1), width = x.size(2);
    const auto all = product(query_key_value, before_attention->forward(x))
                         .view({n, length, 3, heads, width / heads})
                         .permute({2, 0, 3, 1, 4});  // (3, N, heads, T, D)
    const double scale = 1 / std::sqrt(static_cast<double>(width / heads));
    const auto scores = all[0].matmul(all[1].transpose(-2, -1)) * scale;
    const auto weights = scores.masked_fill(later, -std::numeric_limits<double>::infinity())
                             .softmax(-1);  // (N, heads, T, T)
    const auto attended = weights.matmul(all[2]).transpose(1, 2).reshape({n, length, width});
    const auto y = x + product(mixed, attended);
    return y + product(narrow, torch::gelu(product(widen, before_layers->forward(y))));
  }
};

struct attention_model : torch::nn::Module {
  torch::nn::Embedding characters{nullptr}, positions{nullptr};
  std::vector<std::shared_ptr<attention_block>> blocks;
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear next{nullptr};

  attention_model(std::int64_t vocabulary, std::int64_t length, std::int64_t width = 128,
                  int depth = 5, std::int64_t heads = 4) {
    characters = register_module("characters", torch::nn::Embedding(vocabulary, width));
    positions = register_module("positions", torch::nn::Embedding(length, width));
    for (int k = 0; k < depth; ++k)
      blocks.push_back(register_module(cordee::concat("block", k),
                                       std::make_shared<attention_block>(width, heads)));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    next = register_module("next", torch::nn::Linear(width, vocabulary));
    const torch::NoGradGuard no_grad;
    for (torch::nn::Embedding& table : {std::ref(characters), std::ref(positions)})
      table->weight.normal_(0, 0.02);  // LibTorch's 1 would hide the position
  }
  /// The number type of the products.
  void use(torch::ScalarType type) {
    for (const auto& m : modules(false))
      if (m->as<torch::nn::Linear>() != nullptr) m->to(type);
  }
  torch::Tensor forward(const torch::Tensor& text) {  // (N, T) indices
    const std::int64_t length = text.size(1);
    const auto later = torch::ones({length, length}, torch::kBool).triu(1);
    torch::Tensor x = characters->forward(text) + positions->weight.slice(0, 0, length);
    for (const auto& block : blocks) x = block->forward(x, later);
    return product(next, norm->forward(x));  // (N, T, vocabulary)
  }
};

}  // namespace examples
