// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Training steps of modules of LibTorch: numbers beside those of LibTorch's own loop.
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/libtorch/torch_model.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/train/trainer.hpp>

#include "examples/libtorch/attention_model.hpp"
#include "examples/libtorch/row_lstm.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/torch_fixture.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Twenty steps of LibTorch's own loop.
template <class Optimizer>
torch::Tensor plain_loop(torch::ScalarType type, const auto& options) {
  auto net = std::make_shared<two_layers>();
  net->to(type);
  Optimizer optimizer(net->parameters(), options);
  for (int k = 0; k < 20; ++k) {
    optimizer.zero_grad();
    loss_of(*net, samples(type)).backward();
    optimizer.step();
  }
  return flat(*net);
}
/// The same by a trainer, of each rank's part of the samples; rank 0's parameters.
template <class P, class O>
torch::Tensor trained(int ranks, const O& optimizer, double rate, torch::ScalarType type) {
  std::vector<std::shared_ptr<two_layers>> nets;
  for (int r = 0; r < ranks; ++r) {
    nets.push_back(std::make_shared<two_layers>(r + 1));  // rank 0's weights become all ranks'
    nets.back()->to(type);
  }
  return on_ranks(ranks, [&](threads comm) {
    const auto net = nets[static_cast<std::size_t>(comm.rank())];
    torch_model<example, P> model{net, loss_of};
    trainer run{model, optimizer, fixed_rate{rate}, ring{comm}, {.bucket_bytes = 256}};
    const example own = samples(type, comm.rank(), ranks);
    for (int k = 0; k < 20; ++k) run.step(own, own.data.size(0), k);
    return flat(*net);
  })[0];
}

/// Autocast of CPU operations, on this thread.
class autocast_scope {
 public:
  autocast_scope() { enable(true); }
  ~autocast_scope() { enable(false); }

 private:
  static void enable(bool on) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
    at::autocast::set_autocast_enabled(at::kCPU, on);
#else
    at::autocast::set_cpu_enabled(on);
#endif
  }
};

}  // namespace

TEST_CASE("torch_model: twenty steps are those of LibTorch's loop, on 1, 2, 3 and 5 ranks") {
  torch::set_num_threads(1);
  const auto by_sgd = torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.01);
  const auto by_adamw = torch::optim::AdamWOptions(0.01).weight_decay(0.1);
  const sgd own_sgd{.momentum = 0.9, .weight_decay = 0.01, .decay_on = all_kinds};
  const adamw own_adamw{.weight_decay = 0.1, .decay_on = all_kinds};
  for (const int ranks : {1, 2, 3, 5}) {
    CAPTURE(ranks);
    CHECK(distance(trained<fp64>(ranks, own_sgd, 0.1, torch::kDouble),
                   plain_loop<torch::optim::SGD>(torch::kDouble, by_sgd)) < 1e-12);
    CHECK(distance(trained<fp32>(ranks, own_sgd, 0.1, torch::kFloat),
                   plain_loop<torch::optim::SGD>(torch::kFloat, by_sgd)) < 1e-5);
    CHECK(distance(trained<fp64>(ranks, own_adamw, 0.01, torch::kDouble),
                   plain_loop<torch::optim::AdamW>(torch::kDouble, by_adamw)) < 1e-12);
  }
}

TEST_CASE("torch_model: half and bfloat16 modules have masters of float") {
  // LibTorch 1.13 has no LayerNorm of half on a CPU, so a layer alone.
  const auto weights_of = [](auto precision, torch::ScalarType type) {
    using P = decltype(precision);
    threads::launch(2, [&](threads comm) {
      torch::Tensor w;
      auto net = std::make_shared<torch::nn::BilinearImpl>(
          torch::nn::BilinearOptions(1, 1, 1).bias(false));
      {
        const torch::NoGradGuard no_grad;
        net->weight.fill_(0.5);
      }
      net->to(type);
      torch_model<double, P> model{net, [](torch::nn::BilinearImpl& n, double target) {
                                     return (n.weight - target).square().sum() / 2;
                                   }};
      trainer run{model, sgd{.momentum = 0}, fixed_rate{1e-5}, ring{comm}};
      int applied = 0;
      for (int k = 0; k < 10; ++k) applied += run.step(0.25, 1, k).applied;
      check_contains(model.describe_parameters(), "but for 4 bytes, which are copied each way");
      if (comm.rank() == 0) {
        // Updates of 2.5e-6, all of them less than half of the distance of the module's numbers.
        CHECK(applied >= 8);
        CHECK(net->weight.item<float>() == 0.5f);
        CHECK(run.weights("weight")[0] == doctest::Approx(0.5 - applied * 2.5e-6).epsilon(1e-7));
        CHECK(run.weights("weight")[0] < 0.49999f);
      }
    });
  };
  weights_of(bf16{}, torch::kBFloat16);
  weights_of(fp16{}, torch::kHalf);
}

TEST_CASE("torch_model: buffers of floating point are averaged for evaluation, as batch norm's") {
  threads::launch(2, [](threads comm) {
    auto net = std::make_shared<torch::nn::BatchNorm1dImpl>(6);
    torch_model model{net, [](torch::nn::BatchNorm1dImpl& n, const example& b) {
                        return n.forward(b.data).square().mean();
                      }};
    trainer run{model, sgd{}, fixed_rate{}, ring{comm}};
    const example own = samples(torch::kFloat, comm.rank(), 2);
    run.step(own, 12, 0);
    const torch::Tensor before = net->running_mean.clone();
    CHECK(distance(before.to(torch::kDouble), own.data.mean(0).to(torch::kDouble) * 0.1) < 1e-5);
    run.with_mean_model([&] {
      const torch::Tensor all = samples(torch::kFloat).data.mean(0) * 0.1;
      CHECK(distance(net->running_mean.to(torch::kDouble), all.to(torch::kDouble)) < 1e-5);
      return 0;
    });
    CHECK(net->running_mean.equal(before));
    CHECK(net->num_batches_tracked.item<std::int64_t>() == 1);
  });
}

TEST_CASE("torch_model: channels-last parameters are copied, and trained alike") {
  const auto weights_after = [](bool channels_last, bool images_too = false) {
    torch::Tensor out;
    threads::launch(1, [&](threads comm) {
      torch::manual_seed(4);
      auto net = std::make_shared<torch::nn::Conv2dImpl>(torch::nn::Conv2dOptions(3, 4, 3));
      net->to(torch::kDouble);
      if (channels_last)
        net->weight.set_data(net->weight.detach().contiguous(at::MemoryFormat::ChannelsLast));
      torch_model<torch::Tensor, fp64> model{net,
                                             [](torch::nn::Conv2dImpl& n, const torch::Tensor& x) {
                                               return n.forward(x).square().mean();
                                             }};
      trainer run{model, sgd{}, fixed_rate{}, ring{comm}};
      const torch::Tensor x = torch::sin(torch::arange(2 * 3 * 5 * 5, torch::kDouble))
                                  .reshape({2, 3, 5, 5})
                                  .contiguous(images_too ? at::MemoryFormat::ChannelsLast
                                                         : at::MemoryFormat::Contiguous);
      for (int k = 0; k < 3; ++k) run.step(x, 2, k);
      CHECK(net->weight.is_contiguous() == !channels_last);
      out = net->weight.detach().contiguous().clone();
    });
    return out;
  };
  const torch::Tensor expected = weights_after(false);
  CHECK(distance(weights_after(true), expected) < 1e-14);
  CHECK(distance(weights_after(true, true), expected) < 1e-14);
  CHECK(distance(weights_after(false, true), expected) < 1e-14);
}

TEST_CASE("torch_model: a layer in autocast's bfloat16 computes with the weights of this step") {
  const auto loss = [](torch::nn::LinearImpl& n, const example& b) {
    const autocast_scope bfloat16;
    return torch::nn::functional::cross_entropy(n.forward(b.data).to(torch::kFloat), b.target);
  };
  const auto make = [] {
    torch::manual_seed(2);
    return std::make_shared<torch::nn::LinearImpl>(6, 3);
  };
  const auto plain = make();
  for (int k = 0; k < 3; ++k) {
    plain->zero_grad();
    loss(*plain, samples(torch::kFloat)).backward();
    at::autocast::clear_cache();  // as Python's autocast does at its end
    const torch::NoGradGuard no_grad;
    for (auto& p : plain->parameters()) p.sub_(p.grad());
  }
  threads::launch(1, [&](threads comm) {
    auto net = make();
    torch_model model{net, loss};
    trainer run{model, sgd{.momentum = 0}, fixed_rate{1}, ring{comm}};
    for (int k = 0; k < 3; ++k) run.step(samples(torch::kFloat), 24, k);
    CHECK(distance(flat(*net), flat(*plain)) < 1e-6);
  });
}

namespace {

/// The mean losses of eight steps over 24 samples, of which each rank has its part.
template <class Net>
std::vector<double> losses_on(int ranks, const example& all, const auto& make, const auto& loss) {
  std::vector<std::shared_ptr<Net>> nets;
  torch::manual_seed(2);
  for (int r = 0; r < ranks; ++r) nets.push_back(make());
  const auto parts = on_ranks(ranks, [&](threads comm) {
    const auto net = nets[static_cast<std::size_t>(comm.rank())];
    net->to(torch::kDouble);
    torch_model<example, fp64> model{net, loss};
    trainer run{model, sgd{}, fixed_rate{}, ring{comm}, {.bucket_bytes = 4096}};
    const torch::Tensor rows = torch::arange(comm.rank(), 24, ranks);
    const example own{all.data.index_select(0, rows), all.target.index_select(0, rows)};
    std::vector<double> losses;
    for (int k = 0; k < 8; ++k) losses.push_back(run.step(own, rows.size(0), k).train.loss / 24);
    return losses;
  });
  std::vector<double> sums(8);
  for (const auto& part : parts)
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += part[k];
  return sums;
}

}  // namespace

TEST_CASE("torch_model: an LSTM and a transformer have the losses of one rank on two and five") {
  torch::set_num_threads(1);
  const torch::Tensor at = torch::arange(24 * 6 * 5, torch::kDouble).reshape({24, 6, 5});
  const example rows{torch::sin(at * 0.37), torch::arange(24).remainder(3)};
  const torch::Tensor text = torch::arange(24 * 7).remainder(11).remainder(5).reshape({24, 7});
  const example sequences{text.slice(1, 0, 6), text.slice(1, 1, 7)};
  const auto expect_alike = [](const auto& on) {
    const std::vector<double> one = on(1);
    CHECK(one.back() < one.front());
    for (const int ranks : {2, 5}) {
      CAPTURE(ranks);
      const std::vector<double> several = on(ranks);
      for (std::size_t k = 0; k < one.size(); ++k)
        CHECK(several[k] == doctest::Approx(one[k]).epsilon(1e-12));
    }
  };
  expect_alike([&](int ranks) {
    return losses_on<examples::row_lstm>(
        ranks, rows, [] { return std::make_shared<examples::row_lstm>(5, 8, 3); },
        [](examples::row_lstm& net, const example& b) {
          return torch::nn::functional::cross_entropy(net.forward(b.data), b.target);
        });
  });
  expect_alike([&](int ranks) {
    return losses_on<examples::attention_model>(
        ranks, sequences, [] { return std::make_shared<examples::attention_model>(5, 6, 8, 2, 2); },
        [](examples::attention_model& net, const example& b) {
          return torch::nn::functional::cross_entropy(net.forward(b.data).flatten(0, 1),
                                                      b.target.flatten());
        });
  });
}
