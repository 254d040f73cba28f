// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A module on a device whose memory is not the host's, as far as that goes without CUDA tensors: on
// an emulated GPU, whose memory tensors of LibTorch's CPU can view.
#include <memory>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/libtorch/tensor_device.hpp>
#include <cordee/libtorch/torch_model.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/emulated_tensor_device.hpp"
#include "tests/support/torch_fixture.hpp"

using namespace cordee;
using namespace support;

namespace {

struct normed : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(6, 8));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(8));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(8, 3));
  torch::Tensor forward(const torch::Tensor& x) {
    return second->forward(torch::tanh(norm->forward(first->forward(x))));
  }
};
constexpr auto normed_loss = [](normed& net, const example& b) {
  return torch::nn::functional::cross_entropy(net.forward(b.data), b.target);
};

/// Weights and statistics of rank 0 after four steps of two ranks; of each step the loss.
template <class D>
std::pair<torch::Tensor, std::vector<double>> trained_on(const D& device) {
  torch::Tensor weights;
  std::vector<double> losses;
  std::vector<std::shared_ptr<normed>> nets;
  for (int r = 0; r < 2; ++r) {
    torch::manual_seed(1);  // one generator for the process
    nets.push_back(std::make_shared<normed>());
    nets.back()->to(torch::kDouble);
  }
  threads::launch(2, [&](threads comm) {
    const auto net = nets[static_cast<std::size_t>(comm.rank())];
    torch_model<example, fp64, D> model{net, normed_loss, {}, device};
    trainer run{model, sgd{.momentum = 0.9}, fixed_rate{}, ring{comm}, {.bucket_bytes = 8}};
    const example all = samples(torch::kDouble, comm.rank(), 2);
    for (int k = 0; k < 4; ++k) {
      const auto out = run.step(all, 12, k);
      if (comm.rank() == 0) losses.push_back(out.train.loss);
    }
    const auto held_out = run.evaluate(std::vector{all}, [](const example&) { return 12; });
    if (comm.rank() != 0) return;
    losses.push_back(held_out.loss);
    std::vector<torch::Tensor> parts{flat(*net)};
    for (const auto& b : net->buffers()) parts.push_back(b.to(torch::kDouble).flatten());
    weights = torch::cat(parts);
  });
  return {weights, losses};
}

}  // namespace

TEST_CASE("tensor_device: a module on an emulated GPU trains as on the CPU") {
  const auto expected = trained_on(cpu{1}), found = trained_on(emulated{});
  // Updates and means by kernels, whose sums are in the same order, but maybe fused.
  CHECK(distance(found.first, expected.first) < 4 * 16 * 0x1p-52);
  CHECK(expected.second.size() == 5);
  for (std::size_t k = 0; k < 5; ++k)
    CHECK(found.second[k] == doctest::Approx(expected.second[k]).epsilon(1e-13));
}
