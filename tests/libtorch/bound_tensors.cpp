// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/libtorch/bound_tensors.hpp>

#include "tests/support/torch_fixture.hpp"

using namespace cordee;
using namespace support;
using cordee::detail::libtorch::bound_tensors;
using cordee::detail::libtorch::tensors_of;

TEST_CASE("bound_tensors: values are views, complete gradients too, in both write modes") {
  auto net = std::make_shared<torch::nn::LinearImpl>(3, 2);
  bound_tensors<float> bound(tensors_of(*net), {});
  const std::size_t size = bound.list().plane_size();
  std::vector<float> values(size), gradients(size, 7);
  bound.store(values.data(), false);
  CHECK(values[5] == net->weight[1][2].item<float>());
  bound.bind_values(values.data());
  values[5] = 4;
  CHECK(net->weight[1][2].item<float>() == 4);

  const torch::Tensor x = torch::ones({1, 3});
  const auto pass = [&](write_mode mode) {
    bound.bind_gradients({gradients.data(), size}, mode);
    net->forward(x).sum().backward();
    for (std::size_t k = 0; k < 2; ++k) bound.store_gradient(k);
  };
  pass(write_mode::overwrite);
  for (std::size_t i = 0; i < 6; ++i) CHECK(gradients[i] == 1);
  CHECK(net->weight.grad().data_ptr() == gradients.data());
  pass(write_mode::add);
  for (std::size_t i = 0; i < 6; ++i) CHECK(gradients[i] == 2);
  pass(write_mode::overwrite);
  CHECK(gradients[bound.entries()[1].offset] == 1);
  // What no backward reached is zero where the plane is overwritten.
  bound.bind_gradients({gradients.data(), size}, write_mode::overwrite);
  bound.store_gradient(0);
  CHECK(gradients[3] == 0);
}
