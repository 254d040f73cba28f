// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// LEGW on the network of its paper (You et al. 2019): an LSTM of LibTorch reads the rows of an
// image. The learning rate of batch 128 is scaled to the run's batch by a rule, with nothing tuned
// again:
//
//   legw        learning rate times sqrt(k), warm-up epochs times k      k = batch / 128
//   linear      learning rate times k,       warm-up epochs times k
//   no_warmup   learning rate times sqrt(k)
//
// Prints one line of CSV: rule, batch, learning rate of batch 128, epochs, seed, updates, accuracy.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <cordee/cordee.hpp>
#include <cordee/libtorch.hpp>

#include "examples/data.hpp"
#include "examples/libtorch/row_lstm.hpp"
#include "examples/options.hpp"

using namespace cordee;

namespace {

using labelled = torch::data::Example<>;

constexpr int reference_batch = 128;

/// All images of a data set as floats (N, 28, 28), and their labels (N).
template <class Data>
labelled read_all(const Data& data) {
  const auto n = static_cast<std::int64_t>(data.size());
  labelled all{torch::empty({n, 28, 28}, torch::kByte), torch::empty({n}, torch::kLong)};
  for (std::int64_t i = 0; i < n; ++i)
    all.target[i] = data.read(static_cast<std::size_t>(i),
                              {all.data.data_ptr<std::uint8_t>() + i * 28 * 28, 28 * 28});
  all.data = all.data.to(torch::kFloat).div_(255).sub_(0.1307).div_(0.3081);  // MNIST's moments
  return all;
}
labelled select(const labelled& all, const sample_indices& s) {
  const std::vector<std::int64_t> at(s.samples.begin(), s.samples.end());
  const torch::Tensor rows = torch::tensor(at);
  return {all.data.index_select(0, rows), all.target.index_select(0, rows)};
}
double accuracy_of(examples::row_lstm& net, const labelled& all) {
  const torch::NoGradGuard no_grad;
  net.eval();
  std::int64_t correct = 0;
  const auto images = all.data.split(500), labels = all.target.split(500);
  for (std::size_t k = 0; k < images.size(); ++k)
    correct += net.forward(images[k]).argmax(1).eq(labels[k]).sum().item<std::int64_t>();
  return static_cast<double>(correct) / static_cast<double>(all.target.size(0));
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "lstm_legw: an LSTM over the rows of images, by LEGW");
    const std::string folder =
        o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                 "folder of idx files, MNIST's or Fashion-MNIST's; 60,000 images train if the "
                 "training files are there, else 9,000 of the test files'");
    const int ranks = o.positive("ranks", 1, "ranks in this process");
    const int batch = o.positive("batch", 128, "samples of one update, over all ranks");
    const std::string rule = o.string("rule", "legw", "legw, linear or no_warmup");
    const double rate = o.number("learning-rate", 0.1, "at batch 128");
    const double warmup_epochs = o.number("warmup", 0.02, "epochs of warm-up at batch 128");
    const double epochs = o.number("epochs", 2, "passes over the training images");
    const std::uint64_t seed = o.seed("seed of weights and order");
    o.done();
    if (rule != "legw" && rule != "linear" && rule != "no_warmup")
      throw error("--rule is legw, linear or no_warmup, not \"" + rule + "\"");

    if (rule != "no_warmup" && warmup_epochs * batch > epochs * reference_batch)
      throw error(concat("--warmup: ", warmup_epochs * batch / reference_batch,
                         " epochs at this batch are longer than the run of ", epochs));

    const double root = std::sqrt(static_cast<double>(batch) / reference_batch);
    const legw schedule{rule == "no_warmup" ? 0 : warmup_epochs,
                        constant{rule == "linear" ? rate * root : rate}, reference_batch, batch};
    torch::set_num_threads(1);
    torch::manual_seed(seed);
    std::vector<std::shared_ptr<examples::row_lstm>> replicas;
    for (int r = 0; r < ranks; ++r) replicas.push_back(std::make_shared<examples::row_lstm>());

    examples::with_fashion_mnist(folder, [&](const auto& training, const auto& held_out) {
      const labelled train = read_all(training), test = read_all(held_out);
      threads::launch(ranks, [&](threads comm) {
        const auto net = replicas[static_cast<std::size_t>(comm.rank())];
        torch_model model{net, [](examples::row_lstm& n, const labelled& b) {
                            return torch::nn::functional::cross_entropy(n.forward(b.data),
                                                                        b.target);
                          }};
        // Micro-batches of 128: the same sums with the activations in the cache.
        batch_source feed{training.size(),
                          comm,
                          {.global_batch = batch,
                           .accumulate = std::max(1, batch / ranks / reference_batch),
                           .seed = seed},
                          [&](const sample_indices& s) { return select(train, s); }};
        trainer run{model, sgd{.momentum = 0.9}, schedule, ring{comm}, {.seed = seed}};
        run.fit(feed, epochs);
        if (comm.rank() == 0)
          std::printf("%s,%d,%s,%s,%d,%lld,%s\n", rule.c_str(), batch,
                      decimal::general(rate, 6).c_str(), decimal::general(epochs, 6).c_str(),
                      static_cast<int>(seed), static_cast<long long>(feed.steps(epochs)),
                      decimal::fixed(accuracy_of(*net, test), 4).c_str());
      });
    });
  });
}
