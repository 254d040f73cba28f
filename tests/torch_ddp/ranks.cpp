// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// torch_ddp_ranks FOLDER: what ddp.py compares with DistributedDataParallel. Of each NAME in the
// folder's runs (NAME: sgd_float_2, adamw_double_4, ...) it trains the network for as many steps as
// there are batches, on threads as ranks, from initial_TYPE.safetensors and batches_TYPE.pt, and
// writes NAME.safetensors, the weights, and NAME_gradients.safetensors, the last mean gradient.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/core/error.hpp>
#include <cordee/libtorch.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/train/trainer.hpp>
#include <cordee/train/weights.hpp>

using namespace cordee;

namespace {

using example = torch::data::Example<>;

/// ddp.py's Network.
struct network : torch::nn::Module {
  torch::nn::Conv2d conv =
      register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).bias(false)));
  torch::nn::BatchNorm2d bn = register_module("bn", torch::nn::BatchNorm2d(8));
  torch::nn::Linear hidden = register_module("hidden", torch::nn::Linear(8 * 6 * 6, 32));
  torch::nn::LayerNorm norm =
      register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({32})));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(32, 10));

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor maps = torch::tanh(bn->forward(conv->forward(x))).flatten(1);
    return out->forward(torch::tanh(norm->forward(hidden->forward(maps))));
  }
};

c10::IValue read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw error(concat("cannot open \"", path, "\""));
  return torch::pickle_load({std::istreambuf_iterator<char>(file), {}});
}

struct constant_rate {
  double rate;
  double operator()(double) const { return rate; }
};

template <class P>
void train(const std::string& folder, const std::string& type, const std::string& method, int ranks,
           const auto& optimizer, double rate) {
  const auto batches = read(folder + "/batches_" + type + ".pt").toTuple();
  const torch::Tensor data = batches->elements()[0].toTensor();    // (steps, samples, 3, 8, 8)
  const torch::Tensor target = batches->elements()[1].toTensor();  // (steps, samples)
  const std::string out = folder + "/" + method + "_" + type + "_" + std::to_string(ranks);
  std::vector<std::shared_ptr<network>> nets;
  for (int r = 0; r < ranks; ++r) {
    nets.push_back(std::make_shared<network>());
    nets.back()->to(data.scalar_type());
  }
  threads::launch(ranks, [&](threads comm) {
    const auto net = nets[static_cast<std::size_t>(comm.rank())];
    torch_model<example, P> model{net, [](network& n, const example& b) {
                                    return torch::nn::functional::cross_entropy(n.forward(b.data),
                                                                                b.target);
                                  }};
    trainer run{model, optimizer, constant_rate{rate}, ring{comm}, {.bucket_bytes = 8192}};
    run.load(folder + "/initial_" + type + ".safetensors");
    const std::int64_t own = data.size(1) / ranks;
    for (std::int64_t k = 0; k < data.size(0); ++k)
      run.step(example{data[k].narrow(0, comm.rank() * own, own),
                       target[k].narrow(0, comm.rank() * own, own)},
               own, 0);
    run.save(out + ".safetensors");
    run.save_gradients(out + "_gradients.safetensors");
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: torch_ddp_ranks FOLDER\n", stderr);
    return 2;
  }
  torch::set_num_threads(1);
  constexpr kinds all = cordee::detail::core::trainable;
  const sgd by_sgd{.momentum = 0.9, .weight_decay = 0.01, .nesterov = true, .decay_on = all};
  const adamw by_adamw{.weight_decay = 0.1, .decay_on = all};
  try {
    for (const int ranks : {1, 2, 4}) {
      train<fp32>(argv[1], "float", "sgd", ranks, by_sgd, 0.05);
      train<fp64>(argv[1], "double", "sgd", ranks, by_sgd, 0.05);
      train<fp32>(argv[1], "float", "adamw", ranks, by_adamw, 0.001);
      train<fp64>(argv[1], "double", "adamw", ranks, by_adamw, 0.001);
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "torch_ddp_ranks: %s\n", e.what());
    return 1;
  }
}
