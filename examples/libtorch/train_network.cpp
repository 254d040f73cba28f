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
#include <type_traits>
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

// Logits, and the mean loss; of GoogLeNet with its auxiliary heads, which the paper weights by 0.3.
torch::Tensor logits_of(auto& net, const torch::Tensor& x) { return net.forward(x); }
torch::Tensor logits_of(networks::googlenet& net, const torch::Tensor& x) {
  return net.forward(x).logits;
}
torch::Tensor loss_of(auto& net, const torch::Tensor& x, const torch::Tensor& labels) {
  return entropy(net.forward(x), labels);
}
torch::Tensor loss_of(networks::googlenet& net, const torch::Tensor& x,
                      const torch::Tensor& labels) {
  const auto out = net.forward(x);
  if (!net.is_training()) return entropy(out.logits, labels);
  return entropy(out.logits, labels) +
         0.3 * (entropy(out.auxiliary1, labels) + entropy(out.auxiliary2, labels));
}

template <class Net>
double accuracy_of(Net& net, const examples::cifar_images& set, const normalization& norm,
                   int pixels) {
  net.eval();
  const torch::NoGradGuard no_grad;
  std::int64_t correct = 0;
  for (std::size_t i = 0; i < set.size(); ++i) {
    torch::Tensor bytes = torch::empty({1, 3, 32, 32}, torch::kByte);
    const int label = set.read(i, {bytes.data_ptr<std::uint8_t>(), 3 * 32 * 32});
    correct += logits_of(net, enlarged(bytes, norm, pixels)).argmax().template item<int>() == label;
  }
  return 100 * static_cast<double>(correct) / static_cast<double>(set.size());
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
                        return loss_of(n, enlarged(b.data, norm, p.pixels), b.target);
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
    run.with_mean_model([&] {
      if (comm.rank() == 0)
        std::printf("validation accuracy %s %% of %zu images\n",
                    decimal::fixed(accuracy_of(*net, held_out, norm, p.pixels), 2).c_str(),
                    held_out.size());
      return 0;
    });
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
