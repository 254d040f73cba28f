// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The networks of examples/libtorch/networks: their sizes and shapes. Values are compared with
// torchvision's by tests/torchvision/network_steps.py.
#include <cstddef>
#include <memory>

#include <doctest/doctest.h>

#include "examples/libtorch/networks/alexnet.hpp"
#include "examples/libtorch/networks/efficientnet_b0.hpp"
#include "examples/libtorch/networks/googlenet.hpp"
#include "examples/libtorch/networks/network_in_network.hpp"
#include "examples/libtorch/networks/parameter_counts.hpp"
#include "tests/support/torch_fixture.hpp"

using namespace cordee;
using namespace support;

namespace {

std::size_t parameters_of(const torch::nn::Module& net) {
  std::int64_t n = 0;
  for (const auto& p : net.parameters()) n += p.numel();
  return static_cast<std::size_t>(n);
}
torch::Tensor images(std::int64_t samples, std::int64_t pixels) {
  return torch::sin(torch::arange(samples * 3 * pixels * pixels, torch::kFloat))
      .reshape({samples, 3, pixels, pixels});
}

}  // namespace

TEST_CASE("networks: parameters and logits of AlexNet and Network in Network") {
  const torch::NoGradGuard no_grad;
  const auto alexnet = std::make_shared<networks::alexnet>();
  CHECK(parameters_of(*alexnet) == networks::parameter_counts::alexnet);
  CHECK(alexnet->forward(images(1, 63)).sizes() == torch::IntArrayRef({1, 1000}));
  const auto nin = std::make_shared<networks::network_in_network>();
  CHECK(parameters_of(*nin) == networks::parameter_counts::network_in_network);
  CHECK(nin->forward(images(2, 39)).sizes() == torch::IntArrayRef({2, 1000}));
}

TEST_CASE("networks: parameters and logits of EfficientNet-B0, which drops blocks in training") {
  const torch::NoGradGuard no_grad;
  const auto net =
      std::make_shared<networks::efficientnet_b0>(networks::efficientnet_b0_options{.dropout = 0});
  CHECK(parameters_of(*net) == networks::parameter_counts::efficientnet_b0);
  const torch::Tensor x = images(2, 32);
  const auto logits = [&](std::uint64_t seed) {
    torch::manual_seed(seed);
    return net->forward(x);
  };
  CHECK(logits(1).sizes() == torch::IntArrayRef({2, 1000}));
  CHECK(logits(1).equal(logits(1)));
  CHECK_FALSE(logits(1).equal(logits(2)));
  net->eval();
  CHECK(logits(1).equal(logits(2)));
}

TEST_CASE("networks: parameters and logits of GoogLeNet, whose heads are for training") {
  const torch::NoGradGuard no_grad;
  const auto net = std::make_shared<networks::googlenet>();
  CHECK(parameters_of(*net) == networks::parameter_counts::googlenet);
  const torch::Tensor x = images(2, 32);
  const auto trained = net->forward(x);
  for (const torch::Tensor& logits : {trained.logits, trained.auxiliary1, trained.auxiliary2})
    CHECK(logits.sizes() == torch::IntArrayRef({2, 1000}));
  net->eval();
  const auto evaluated = net->forward(x);
  CHECK(evaluated.logits.sizes() == torch::IntArrayRef({2, 1000}));
  CHECK_FALSE((evaluated.auxiliary1.defined() || evaluated.auxiliary2.defined()));
  CHECK(parameters_of(*std::make_shared<networks::googlenet>(networks::googlenet_options{
            .auxiliary_heads = false})) == networks::parameter_counts::googlenet_inference);
  CHECK(parameters_of(*std::make_shared<networks::googlenet>(networks::googlenet_options{
            .branch3_kernel = 5})) == networks::parameter_counts::googlenet_paper);
}
