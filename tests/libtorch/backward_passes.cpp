// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Backward passes of modules of LibTorch: several of one step, on several threads, and errors.
#include <cstddef>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/libtorch/torch_model.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/ranks.hpp"
#include "tests/support/torch_fixture.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("torch_model: an error of forward on one rank ends all, with the rank and the reason") {
  const std::string message = error_message([] {
    threads::launch(
        3,
        [](threads comm) {
          auto net = std::make_shared<two_layers>();
          torch_model model{net, loss_of};
          trainer run{model, sgd{}, fixed_rate{}, ring{comm}};
          example own = samples(torch::kFloat);
          if (comm.rank() == 1) own.data = own.data.slice(1, 0, 5);
          run.step(own, 24, 0);
        },
        long_deadline);
  });
  check_contains(message, "rank 1");
  check_contains(message, "shapes cannot be multiplied");
}

TEST_CASE("torch_model: an error of backward on one rank ends all, with the rank and the reason") {
  const std::string message = error_message([] {
    threads::launch(
        3,
        [](threads comm) {
          auto net = std::make_shared<two_layers>();
          torch_model model{net, [&](two_layers& n, const example& b) {
                              const torch::Tensor hidden = n.first->forward(b.data);
                              if (comm.rank() == 1)  // behind the gradients of norm and second
                                hidden.register_hook([](const torch::Tensor&) -> torch::Tensor {
                                  throw std::runtime_error("planted in backward");
                                });
                              return torch::nn::functional::cross_entropy(
                                  n.second->forward(torch::tanh(n.norm->forward(hidden))),
                                  b.target);
                            }};
          trainer run{model, sgd{}, fixed_rate{}, ring{comm}, {.bucket_bytes = 64}};
          run.step(samples(torch::kFloat), 24, 0);
        },
        long_deadline);
  });
  check_contains(message, "rank 1");
  check_contains(message, "planted in backward");
}

TEST_CASE("torch_model: gradients that another thread completes while backward goes on") {
  const auto weights_after = [](bool on_a_thread) {
    return on_ranks(2, [&](threads comm) {
      const auto net = std::make_shared<two_layers>(1);
      net->to(torch::kDouble);
      torch_model<example, fp64> model{
          net, [&](two_layers& n, const example& b) {
            const torch::Tensor x = b.data.clone().set_requires_grad(true);
            const torch::Tensor y = n.norm->forward(n.first->forward(x)).square().mul(b.data[0][0]);
            const torch::Tensor own =
                n.second->forward(torch::tanh(b.data.repeat({1, 2}).slice(1, 0, 8)));
            const torch::Tensor second = own.square().mean();
            if (!on_a_thread) return y.mean() + second;
            auto worker = std::make_shared<std::thread>();
            y.register_hook([=](const torch::Tensor&) {
              *worker = std::thread([second] { second.backward(); });
            });
            x.register_hook([=](const torch::Tensor&) { worker->join(); });  // the last of backward
            return y.mean();
          }};
      trainer run{model, sgd{}, fixed_rate{}, ring{comm}, {.bucket_bytes = 64}};
      const example own = samples(torch::kDouble, comm.rank(), 2);
      for (int k = 0; k < 5; ++k) run.step(own, 12, k);
      return flat(*net);
    })[0];
  };
  CHECK(distance(weights_after(true), weights_after(false)) < 1e-12);
}

TEST_CASE("torch_model: gradients of micro-batches and of a pass's own backward are added") {
  const auto weights_after = [](int micro, bool auxiliary) {
    torch::Tensor out;
    threads::launch(1, [&](threads comm) {
      auto net = std::make_shared<two_layers>();
      net->to(torch::kDouble);
      torch_model<example, fp64> model{net, [&](two_layers& n, const example& b) {
                                         const torch::Tensor loss = loss_of(n, b);
                                         if (!auxiliary) return loss;
                                         (loss * 0.5).backward({}, true);
                                         return loss * 0.5;
                                       }};
      trainer run{model, sgd{.momentum = 0}, fixed_rate{}, ring{comm}};
      std::vector<example> parts;
      std::vector<data_batch<example, cpu>> batches(static_cast<std::size_t>(micro));
      for (int m = 0; m < micro; ++m) parts.push_back(samples(torch::kDouble, m, micro));
      for (std::size_t m = 0; m < parts.size(); ++m) {
        batches[m].data = &parts[m];
        batches[m].count = 24 / micro;
        batches[m].global_samples = 24;
      }
      for (int k = 0; k < 3; ++k) run.step(batches, k);
      out = flat(*net);
    });
    return out;
  };
  const torch::Tensor expected = weights_after(1, false);
  CHECK(distance(weights_after(3, false), expected) < 1e-14);
  CHECK(distance(weights_after(1, true), expected) < 1e-14);
}

TEST_CASE("torch_model: on one rank gradients stay where they are until somebody asks for them") {
  threads::launch(1, [](threads comm) {
    auto net = std::make_shared<two_layers>();
    torch_model model{net, loss_of};
    trainer run{model, sgd{.momentum = 0}, fixed_rate{}, ring{comm}};
    const example all = samples(torch::kFloat);
    run.step(all, 24, 0);
    const torch::Tensor gradient = net->first->weight.grad();
    const float first = gradient[0][0].item<float>();
    const auto in_arena = run.grads("first.weight");
    CHECK(gradient.data_ptr() != static_cast<void*>(in_arena.data));
    CHECK(net->first->weight.grad().data_ptr() == static_cast<void*>(in_arena.data));
    CHECK(in_arena[0] == first);

    run.step(all, 24, 0);
    const torch::Tensor before = flat(*net);
    run.step(all, 0, 0, 24);  // of no samples: the gradient is zero
    CHECK(flat(*net).equal(before));
    example spoiled = samples(torch::kFloat);
    spoiled.data[0][0] = std::numeric_limits<float>::quiet_NaN();
    CHECK(!run.step(spoiled, 24, 0).applied);
    CHECK(flat(*net).equal(before));
    CHECK(run.step(all, 24, 0).applied);
  });
}
