// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A small module of LibTorch, its samples and its loss.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/libtorch/torch_model.hpp>

#include "tests/support/ranks.hpp"

#undef CHECK  // Debian's LibTorch includes glog, which has one of its own
#define CHECK(...) DOCTEST_CHECK(__VA_ARGS__)

namespace support {

using namespace cordee;

using example = torch::data::Example<>;

struct two_layers : torch::nn::Module {
  torch::nn::Linear first{nullptr}, second{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  explicit two_layers(std::uint64_t seed = 1) {
    static std::mutex generator;  // LibTorch has one for the process, and ranks are threads
    const std::lock_guard lock(generator);
    torch::manual_seed(seed);
    first = register_module("first", torch::nn::Linear(6, 8));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({8})));
    second = register_module("second", torch::nn::Linear(8, 3));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return second->forward(torch::tanh(norm->forward(first->forward(x))));
  }
};

inline constexpr auto loss_of = [](two_layers& net, const example& b) {
  return torch::nn::functional::cross_entropy(net.forward(b.data), b.target);
};

inline constexpr kinds all_kinds = cordee::detail::core::trainable;

struct fixed_rate {
  double rate = 0.1;
  double operator()(double) const { return rate; }
};

/// 24 samples, of which a rank takes every ranks-th.
inline example samples(torch::ScalarType type = torch::kDouble, int rank = 0, int ranks = 1) {
  const torch::Tensor at = torch::arange(24 * 6, torch::kDouble).reshape({24, 6});
  const torch::Tensor rows = torch::arange(rank, 24, ranks);
  return {torch::sin(at * 0.37).to(type).index_select(0, rows),
          torch::arange(24).remainder(3).index_select(0, rows)};
}

/// All parameters in a row.
inline torch::Tensor flat(const torch::nn::Module& net) {
  std::vector<torch::Tensor> all;
  for (const auto& p : net.parameters()) all.push_back(p.detach().flatten().to(torch::kDouble));
  return torch::cat(all).clone();
}
inline double distance(const torch::Tensor& a, const torch::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

std::string refusal(const auto& f) {
  return error_message([&] { threads::launch(1, f); });
}
inline void check_contains(const std::string& text, const char* part) {
  CAPTURE(text);
  CHECK(text.find(part) != std::string::npos);
}

}  // namespace support
