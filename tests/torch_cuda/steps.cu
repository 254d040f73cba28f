// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Modules of LibTorch whose tensors are CUDA tensors, beside a plain loop of LibTorch's on the same
// GPU: one rank, ranks as threads that share the GPU, and over NCCL where there are several GPUs.
// Ends with "skipped: no GPU" where there is none.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/comm/transports/nccl.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/cordee.cuh>
#include <cordee/libtorch.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

using namespace cordee;

namespace {

using example = torch::data::Example<>;
constexpr int steps = 5, samples = 24;
constexpr double rate = 0.1;

struct net_of_layers : torch::nn::Module {
  torch::nn::Conv2d first =
      register_module("first", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 8, 3).padding(1)));
  torch::nn::LayerNorm norm =
      register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({8, 6, 6})));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(8, 3));
  torch::Tensor forward(const torch::Tensor& x) {
    return second->forward(torch::relu(norm->forward(first->forward(x))).mean({2, 3}));
  }
};
torch::Tensor loss_of(net_of_layers& net, const example& b) {
  return torch::nn::functional::cross_entropy(net.forward(b.data), b.target);
}

std::shared_ptr<net_of_layers> make_net(torch::Device place, bool channels_last) {
  torch::manual_seed(1);
  auto net = std::make_shared<net_of_layers>();
  net->to(place);
  if (channels_last) {
    const torch::NoGradGuard no_grad;
    net->first->weight.set_data(net->first->weight.contiguous(at::MemoryFormat::ChannelsLast));
  }
  return net;
}
example samples_of(torch::Device place, int rank, int ranks) {
  const torch::Tensor at = torch::arange(samples * 72, torch::kFloat).reshape({samples, 2, 6, 6});
  const torch::Tensor rows = torch::arange(rank, samples, ranks);
  return {torch::sin(at * 0.37).index_select(0, rows).to(place),
          torch::arange(samples).remainder(3).index_select(0, rows).to(place)};
}
torch::Tensor flat(const torch::nn::Module& net) {
  std::vector<torch::Tensor> all;
  for (const auto& p : net.parameters()) all.push_back(p.detach().cpu().contiguous().flatten());
  return torch::cat(all).clone();
}

/// Weights after LibTorch's own loop.
torch::Tensor by_libtorch(torch::Device place) {
  const auto net = make_net(place, false);
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(rate).momentum(0.9));
  const example all = samples_of(place, 0, 1);
  for (int k = 0; k < steps; ++k) {
    sgd.zero_grad();
    loss_of(*net, all).backward();
    sgd.step();
  }
  return flat(*net);
}
/// Weights after steps of the trainer, of this rank.
template <class Reducer>
torch::Tensor by_trainer(const gpu& device, const Reducer& reducer,
                         const std::shared_ptr<net_of_layers>& net) {
  const torch::Device place(torch::kCUDA, static_cast<c10::DeviceIndex>(device.ordinal()));
  torch_model model{net, loss_of, torch_model_options{}, device};
  trainer run{model,
              sgd{.momentum = 0.9, .weight_decay = 0},
              constant{rate},
              reducer,
              {.bucket_bytes = 64}};
  const int ranks = reducer.comm.size();
  const example own = samples_of(place, reducer.comm.rank(), ranks);
  double first = 0, last = 0;
  for (int k = 0; k < steps; ++k) {
    const auto out = run.step(own, own.data.size(0), k);
    (k == 0 ? first : last) = out.train.mean_loss();
  }
  if (!(last < first)) throw error(concat("the loss went from ", first, " to ", last));
  return flat(*net);
}

int failures = 0;
void check(const std::string& name, const torch::Tensor& found, const torch::Tensor& expected) {
  const double apart = ((found - expected).abs().max() / expected.abs().max()).item<double>();
  failures += apart < 1e-5 ? 0 : 1;
  std::printf("%s: %.2g of the largest weight apart%s\n", name.c_str(), apart,
              apart < 1e-5 ? "" : ": MORE THAN 1e-5");
}
template <class F>
void check_refused(const std::string& name, const char* part, const F& f) {
  std::string message = "nothing";
  try {
    f();
  } catch (const usage_error& e) {
    message = e.what();
  }
  const bool right = message.find(part) != std::string::npos;
  failures += right ? 0 : 1;
  std::printf("%s: %s\n", name.c_str(), right ? "refused" : message.c_str());
}

void run() {
  const torch::Device place(torch::kCUDA, 0);
  const torch::Tensor expected = by_libtorch(place);
  for (const bool channels_last : {false, true})
    check(channels_last ? "one rank, channels-last" : "one rank",
          by_trainer(gpu{0}, solo{}, make_net(place, channels_last)), expected);
  std::vector<std::shared_ptr<net_of_layers>> nets;
  for (int r = 0; r < 2; ++r) nets.push_back(make_net(place, false));
  std::vector<torch::Tensor> weights(2);
  threads::launch(2, [&](threads comm) {
    const auto r = static_cast<std::size_t>(comm.rank());
    weights[r] = by_trainer(gpu{0}, ring{comm}, nets[r]);
  });
  for (const auto& w : weights) check("two ranks on one GPU", w, expected);

  const int gpus = std::min(4, static_cast<int>(torch::cuda::device_count()));
  if (gpus > 1) {
    nets.clear();
    for (int r = 0; r < gpus; ++r)
      nets.push_back(make_net({torch::kCUDA, static_cast<c10::DeviceIndex>(r)}, false));
    weights.assign(static_cast<std::size_t>(gpus), {});
    threads::launch(gpus, [&](threads host_comm) {
      nccl::launch(
          [&](nccl comm) {
            const auto r = static_cast<std::size_t>(comm.rank());
            weights[r] = by_trainer(gpu{comm.rank()}, native{comm}, nets[r]);
          },
          rendezvous_comm<threads>{host_comm});
    });
    for (const auto& w : weights) check("over NCCL", w, expected);
  } else {
    std::printf("over NCCL: skipped: one GPU\n");
  }
  check_refused("a module on the CPU", "call to(torch::Device(\"cuda:0\"))", [] {
    torch_model{make_net(torch::kCPU, false), loss_of, torch_model_options{}, gpu{0}};
  });
  check_refused("CUDA tensors on device cpu", "or train on the GPU", [&] {
    torch_model{make_net(place, false), loss_of};
  });
}

}  // namespace

int main() {
  if (!torch::cuda::is_available()) {
    std::printf("skipped: no GPU\n");
    return 0;
  }
  try {
    run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
  return failures == 0 ? 0 : 1;
}
