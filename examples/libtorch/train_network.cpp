// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Trains one of the networks of LibTorch in this folder on CIFAR-10 or on synthetic images, which
// are enlarged to the size that the network needs. Ranks are threads with a replica each. Files of
// weights have torchvision's names, so Python's load_state_dict takes them, and --load Python's.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cordee/cordee.hpp>
#include <cordee/libtorch.hpp>

#include "examples/cifar_images.hpp"
#include "examples/libtorch/networks/alexnet.hpp"
#include "examples/libtorch/networks/efficientnet_b0.hpp"
#include "examples/libtorch/networks/googlenet.hpp"
#include "examples/libtorch/networks/network_in_network.hpp"
#include "examples/options.hpp"

using namespace cordee;

namespace {

constexpr std::int64_t class_count = 10;

struct plan {
  std::string data, load, save;
  int ranks, batch, pixels;
  double epochs, learning_rate;
  std::uint64_t seed;
};

torch::Tensor enlarged(const torch::Tensor& bytes, const normalization& norm, int pixels) {
  return torch::upsample_bilinear2d(normalized(bytes, norm), {pixels, pixels}, false);
}
torch::Tensor entropy(const torch::Tensor& logits, const torch::Tensor& labels) {
  return torch::nn::functional::cross_entropy(logits, labels);
}

// Mean loss, and correct predictions; GoogLeNet's auxiliary heads, which only training has, are
// weighted by 0.3 as in the paper.
std::pair<torch::Tensor, std::int64_t> outcome_of(const torch::Tensor& logits,
                                                  const torch::Tensor& labels) {
  return {entropy(logits, labels), (logits.argmax(1) == labels).sum().item<std::int64_t>()};
}
auto outcome_of(const networks::googlenet::output& out, const torch::Tensor& labels) {
  auto outcome = outcome_of(out.logits, labels);
  for (const torch::Tensor& head : {out.auxiliary1, out.auxiliary2})
    if (head.defined()) outcome.first = outcome.first + 0.3 * entropy(head, labels);
  return outcome;
}

/// Every ranks-th image, in batches of one.
std::vector<torch::data::Example<>> own_part(const examples::cifar_images& set,
                                             const threads& comm) {
  std::vector<torch::data::Example<>> out;
  for (auto i = static_cast<std::size_t>(comm.rank()); i < set.size();
       i += static_cast<std::size_t>(comm.size())) {
    const torch::Tensor bytes = torch::empty({1, 3, 32, 32}, torch::kByte);
    const std::int64_t label = set.read(i, {bytes.data_ptr<std::uint8_t>(), 3 * 32 * 32});
    out.emplace_back(bytes, torch::full({1}, label, torch::kLong));
  }
  return out;
}

template <class Net>
void train(const plan& p, const auto& options) {
  const examples::cifar_images training(p.data, cifar10::train, 500),
      held_out(p.data, cifar10::test, 100);
  const normalize norm = normalize::measured(training);
  torch::manual_seed(p.seed);
  std::vector<std::shared_ptr<Net>> nets;  // rank 0's weights become those of all ranks
  for (int rank = 0; rank < p.ranks; ++rank) nets.push_back(std::make_shared<Net>(options));
  threads::launch(p.ranks, [&](threads comm) {
    const auto net = nets[static_cast<std::size_t>(comm.rank())];
    torch_model model{net, [&](Net& n, const torch::data::Example<>& b) {
                        return outcome_of(n.forward(enlarged(b.data, norm, p.pixels)), b.target);
                      }};
    trainer run{model,
                sgd{.momentum = 0.9, .weight_decay = 5e-4},
                warmup{p.epochs / 5, cosine{.peak = p.learning_rate, .epochs = p.epochs}},
                ring{comm},
                {.seed = p.seed}};
    if (!p.load.empty()) run.load(p.load);
    loader feed{training,
                comm,
                {.global_batch = p.batch, .seed = p.seed},
                pad_crop_flip{.pad = 4, .flip = true},
                norm};
    torch_images batches{feed};
    run.fit(batches, p.epochs, console{});
    const metrics validation =
        run.evaluate(own_part(held_out, comm), [](const auto& b) { return b.data.size(0); });
    if (comm.rank() == 0)
      std::printf("validation accuracy %s %% of %lld images\n",
                  decimal::fixed(100 * validation.accuracy(), 2).c_str(),
                  static_cast<long long>(validation.count));
    if (!p.save.empty()) run.save(p.save);
  });
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "train_network: a network of LibTorch on ranks");
    const std::string network =
        o.string("network", "googlenet", "alexnet, network_in_network, googlenet, efficientnet_b0");
    const plan p{.data = o.string("data", "synthetic", "folder of CIFAR-10's binary files"),
                 .load = o.string("load", "", "file of weights to begin with (safetensors)"),
                 .save = o.string("save", "", "file for the trained weights"),
                 .ranks = o.positive("ranks", 2, "ranks in this process"),
                 .batch = o.positive("batch", 20, "samples of one update, over all ranks"),
                 .pixels = o.positive("pixels", 64, "sides of the enlarged images"),
                 .epochs = o.number("epochs", 2, "passes over the training images"),
                 .learning_rate = o.number("learning-rate", 0.01, "peak learning rate"),
                 .seed = o.seed()};
    o.done();
    if (network == "alexnet")
      train<networks::alexnet>(p, networks::alexnet_options{.classes = class_count});
    else if (network == "network_in_network")
      train<networks::network_in_network>(
          p, networks::network_in_network_options{.classes = class_count});
    else if (network == "googlenet")
      train<networks::googlenet>(p, networks::googlenet_options{.classes = class_count});
    else if (network == "efficientnet_b0")
      train<networks::efficientnet_b0>(p,
                                       networks::efficientnet_b0_options{.classes = class_count});
    else
      throw error(concat("--network: there is no \"", network,
                         "\": give alexnet, network_in_network, googlenet or efficientnet_b0"));
  });
}
