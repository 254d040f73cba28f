// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// LAMB beside AdamW on a transformer of LibTorch with 1 M parameters, which predicts the next
// character of a text. The learning rate of batch 64 is scaled to the run's batch by LEGW, the root
// rule with a warm-up of as many updates, and decays linearly.
//
// Prints one line of CSV: optimizer, batch, learning rate of batch 64, epochs, seed, updates, and
// the mean loss of a held-out character in nats.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <cordee/cordee.hpp>
#include <cordee/libtorch.hpp>

#include "examples/libtorch/attention_model.hpp"
#include "examples/options.hpp"

using namespace cordee;

namespace {

using sequences = torch::data::Example<>;  // data: (N, length) indices; target: those one later

constexpr int reference_batch = 64;

/// A text as indices into the characters that it has.
struct text {
  torch::Tensor indices;
  std::int64_t vocabulary = 0;

  explicit text(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    if (!in || bytes.size() < 1000)
      throw error("--data: " + path + " is no text of 1,000 characters or more");
    std::string known = bytes;
    std::sort(known.begin(), known.end());
    known.erase(std::unique(known.begin(), known.end()), known.end());
    vocabulary = static_cast<std::int64_t>(known.size());
    std::vector<std::int64_t> at;
    for (const char c : bytes)
      at.push_back(std::lower_bound(known.begin(), known.end(), c) - known.begin());
    indices = torch::tensor(at);
  }
};
/// The sequences that begin at these characters.
sequences at_characters(const torch::Tensor& indices, const torch::Tensor& begins,
                        std::int64_t length) {
  const auto at = begins.unsqueeze(1) + torch::arange(length);
  return {indices.index({at}), indices.index({at + 1})};
}
torch::Tensor loss_of(examples::attention_model& net, const sequences& s) {
  return torch::nn::functional::cross_entropy(net.forward(s.data).flatten(0, 1),
                                              s.target.flatten());
}
double mean_loss(examples::attention_model& net, const torch::Tensor& indices,
                 std::int64_t length) {
  const torch::NoGradGuard no_grad;
  net.eval();
  double sum = 0;
  const auto begins = torch::arange(0, indices.size(0) - length, length);
  for (const auto& part : begins.split(64))
    sum += loss_of(net, at_characters(indices, part, length)).item<double>() *
           static_cast<double>(part.size(0));
  return sum / static_cast<double>(begins.size(0));
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "character_transformer: LAMB or AdamW on a transformer over characters");
    const text all{o.string("data", CORDEE_EXAMPLE_DATA "/shakespeare/plays.txt",
                            "a text, of which the last tenth is held out")};
    const int ranks = o.positive("ranks", 1, "ranks in this process");
    const int batch = o.positive("batch", 64, "sequences of one update, over all ranks");
    const std::string optimizer = o.string("optimizer", "lamb", "lamb or adamw");
    const double rate = o.number("learning-rate", 0.004, "at batch 64");
    const double warmup_epochs = o.number("warmup", 0.03125, "epochs of warm-up at batch 64");
    const double epochs = o.number("epochs", 1, "passes over the text");
    const int length = o.positive("length", 16, "characters of a sequence");
    const bool narrow = o.flag("bf16", "compute products in bfloat16");
    const std::uint64_t seed = o.seed("seed of weights and order");
    o.done();
    if (optimizer != "lamb" && optimizer != "adamw")
      throw error("--optimizer is lamb or adamw, not \"" + optimizer + "\"");

    torch::set_num_threads(1);
    torch::manual_seed(seed);
    std::vector<std::shared_ptr<examples::attention_model>> replicas;
    for (int r = 0; r < ranks; ++r) {
      replicas.push_back(std::make_shared<examples::attention_model>(all.vocabulary, length));
      if (narrow) replicas.back()->use(torch::kBFloat16);
    }
    const std::int64_t held_out = all.indices.size(0) / 10;
    const auto parts = all.indices.split_with_sizes({all.indices.size(0) - held_out, held_out});
    const legw schedule{warmup_epochs, polynomial{.peak = rate, .epochs = epochs, .power = 1},
                        reference_batch, batch};

    threads::launch(ranks, [&](threads comm) {
      const auto net = replicas[static_cast<std::size_t>(comm.rank())];
      torch_model<sequences> model{net, loss_of};
      // The sequences of an update begin at multiples of their length, moved by the update.
      batch_source feed{static_cast<std::size_t>(parts[0].size(0) / length - 1),
                        comm,
                        {.global_batch = batch,
                         .accumulate = std::max(1, batch / ranks / reference_batch),
                         .seed = seed},
                        [&](const sample_indices& s) {
                          const std::vector<std::int64_t> at(s.samples.begin(), s.samples.end());
                          return at_characters(
                              parts[0], torch::tensor(at) * length + s.update % length, length);
                        }};
      const auto train = [&](const auto& method) {
        trainer run{model, method, schedule, ring{comm}, {.seed = seed}};
        run.fit(feed, epochs);
        if (comm.rank() == 0)
          std::printf("%s,%d,%s,%s,%d,%lld,%s\n", optimizer.c_str(), batch,
                      decimal::general(rate, 6).c_str(), decimal::general(epochs, 6).c_str(),
                      static_cast<int>(seed), static_cast<long long>(feed.steps(epochs)),
                      decimal::fixed(mean_loss(*net, parts[1], length), 4).c_str());
      };
      if (optimizer == "lamb")
        train(lamb{.weight_decay = 0.01});
      else
        train(adamw{.weight_decay = 0.01});
    });
  });
}
