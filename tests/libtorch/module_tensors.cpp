// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/libtorch/module_tensors.hpp>

using namespace cordee;
using cordee::detail::libtorch::tensors_of;

namespace {

struct block : torch::nn::Module {
  block() {
    register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3)));
    register_module("bn", torch::nn::BatchNorm2d(4));
    register_module("gn", torch::nn::GroupNorm(torch::nn::GroupNormOptions(2, 4)));
    register_module("plain",
                    torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(4).affine(false)));
    register_parameter("bias_of_none", torch::zeros({4}));
  }
};

}  // namespace

TEST_CASE("module_tensors: names of the state_dict, kinds by the module that owns a tensor") {
  struct outer : torch::nn::Module {
    outer() {
      auto inner = std::make_shared<block>();
      register_module("inner", inner);
      register_module("embedding", torch::nn::Embedding(5, 4));
      register_module("again", inner);  // the same tensors by other names
    }
  };
  const auto root = std::make_shared<outer>();
  const auto found = tensors_of(*root);
  struct expected {
    const char* name;
    kind of;
    bool parameter;
  };
  const std::vector<expected> all{{"inner.bias_of_none", kind::weight, true},
                                  {"inner.conv.weight", kind::weight, true},
                                  {"inner.conv.bias", kind::bias, true},
                                  {"inner.bn.weight", kind::scale, true},
                                  {"inner.bn.bias", kind::shift, true},
                                  {"inner.bn.running_mean", kind::statistic, false},
                                  {"inner.bn.running_var", kind::statistic, false},
                                  {"inner.bn.num_batches_tracked", kind::statistic, false},
                                  {"inner.gn.weight", kind::scale, true},
                                  {"inner.gn.bias", kind::shift, true},
                                  {"inner.plain.running_mean", kind::statistic, false},
                                  {"inner.plain.running_var", kind::statistic, false},
                                  {"inner.plain.num_batches_tracked", kind::statistic, false},
                                  {"embedding.weight", kind::weight, true}};
  REQUIRE(found.size() == all.size());
  for (std::size_t k = 0; k < all.size(); ++k) {
    CAPTURE(all[k].name);
    CHECK(found[k].name == all[k].name);
    CHECK(found[k].kind == all[k].of);
    CHECK(found[k].is_parameter == all[k].parameter);
    const bool twice = found[k].name.starts_with("inner");
    REQUIRE(found[k].other_names.size() == (twice ? 1 : 0));
    if (twice) CHECK(found[k].other_names[0] == "again" + found[k].name.substr(5));
  }
}

TEST_CASE("module_tensors: biases of recurrent layers and of attention") {
  struct both : torch::nn::Module {
    both() {
      register_module(
          "lstm", torch::nn::LSTM(torch::nn::LSTMOptions(3, 4).num_layers(2).bidirectional(true)));
      register_module("attention", torch::nn::MultiheadAttention(4, 2));
    }
  };
  int biases = 0;
  for (const auto& t : tensors_of(*std::make_shared<both>())) {
    CAPTURE(t.name);
    const bool is_bias = t.name.find("bias") != std::string::npos;
    CHECK((t.kind == kind::bias) == is_bias);
    biases += is_bias;
  }
  CHECK(biases == 2 * 2 * 2 + 2);
}
