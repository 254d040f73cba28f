// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A model of your own, without the library's layers: a network of two layers on Fashion-MNIST, with
// its backward by hand. It trains over a ring like any network; with a folder for checkpoints, a
// run that was stopped continues with the same bits.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include <cordee/cordee.hpp>
#if defined(WITH_CHECKPOINT)
#include <cordee/checkpoint/checkpoint.hpp>
#endif

#include "options.hpp"

using namespace cordee;

namespace {

constexpr std::size_t pixels = 784, hidden = 64, classes = 10;

struct images {
  std::vector<float> x;  // (N, pixels)
  std::vector<int> label;
};

//   h = max(0, W1 x + b1),  z = W2 h + b2,  loss = log(sum_k exp(z_k)) - z_y
//   dz = softmax(z) - [k = y],  dW2 = dz h^T,  db2 = dz,  dh = W2^T dz where h > 0,  dW1 = dh x^T
metrics two_layers(const images& batch, model_pass<float, cpu>& pass) {
  const auto w1 = pass.weights("fc1.weight"), b1 = pass.weights("fc1.bias"),
             w2 = pass.weights("fc2.weight"), b2 = pass.weights("fc2.bias");
  metrics sums{.count = static_cast<std::int64_t>(batch.label.size())};
  for (std::size_t n = 0; n < batch.label.size(); ++n) {
    const float* const x = &batch.x[n * pixels];
    std::array<float, hidden> h{}, dh{};
    std::array<float, classes> z{};
    for (std::size_t j = 0; j < hidden; ++j) {
      for (std::size_t i = 0; i < pixels; ++i) h[j] += w1[j * pixels + i] * x[i];
      h[j] = std::max(h[j] + b1[j], 0.0F);
    }
    for (std::size_t k = 0; k < classes; ++k) {
      z[k] = b2[k];
      for (std::size_t j = 0; j < hidden; ++j) z[k] += w2[k * hidden + j] * h[j];
    }
    const float largest = *std::max_element(z.begin(), z.end());
    float total = 0;
    for (const float logit : z) total += std::exp(logit - largest);
    const auto label = static_cast<std::size_t>(batch.label[n]);
    sums.loss += static_cast<double>(largest + std::log(total) - z[label]);
    sums.top1 += z[label] == largest;
    if (!pass.trains()) continue;
    // loss_weight(): samples, ranks and loss scale, so that the reduced gradient is the mean's.
    const auto weight = static_cast<float>(pass.loss_weight());
    const auto g1 = pass.gradient("fc1.weight"), g2 = pass.gradient("fc2.weight");
    for (std::size_t k = 0; k < classes; ++k) {
      const float dz = weight * (std::exp(z[k] - largest) / total - (k == label ? 1.0F : 0.0F));
      pass.gradient("fc2.bias")[k] += dz;
      for (std::size_t j = 0; j < hidden; ++j) {
        g2[k * hidden + j] += dz * h[j];
        dh[j] += h[j] > 0 ? dz * w2[k * hidden + j] : 0;
      }
    }
    for (std::size_t j = 0; j < hidden; ++j) {
      pass.gradient("fc1.bias")[j] += dh[j];
      for (std::size_t i = 0; i < pixels; ++i) g1[j * pixels + i] += dh[j] * x[i];
    }
  }
  return sums;  // without calls of ready(), all gradients are exchanged behind the pass
}

/// Hash of all bits, in hexadecimal.
std::string hash_of(std::span<const float> weights) {
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  for (const float w : weights) hash = (hash ^ std::bit_cast<std::uint32_t>(w)) * 1099511628211ULL;
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(hash));
  return digits.data();
}

/// The images of these indices, in the form that the model reads.
template <class Data>
images read(const Data& data, std::span<const std::uint32_t> indices) {
  images out{std::vector<float>(indices.size() * pixels), {}};
  std::vector<std::uint8_t> bytes(pixels);
  for (std::size_t n = 0; n < indices.size(); ++n) {
    out.label.push_back(data.read(indices[n], bytes));
    for (std::size_t i = 0; i < pixels; ++i)
      out.x[n * pixels + i] = static_cast<float>(bytes[i]) / 255 - 0.3F;
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "own_model: a model of your own (two layers)");
    const std::string at = o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                                    "folder of Fashion-MNIST's idx files (t10k-…)");
    const int ranks = o.positive("ranks", 4, "ranks in this process");
    const int global = o.positive("batch", 256, "samples of one update, over all ranks");
    const double epochs = o.number("epochs", 5, "passes over 9,000 images");
    const double learning_rate = o.number("learning-rate", 0.02, "peak learning rate");
    const std::string folder =
        o.string("checkpoints", "", "folder for checkpoints, from which a further run continues");
    const double until = o.number("until", epochs, "passes after which this run ends");
    const std::uint64_t seed = o.seed();
    o.done();

    const idx all{at + "/t10k-images-idx3-ubyte", at + "/t10k-labels-idx1-ubyte"};
    const auto [training, held_out] = split(all, 0.1, 1);
    parameter_list parameters;
    parameters.add("fc1.weight", {hidden, pixels})
        .add("fc1.bias", {hidden}, kind::bias)
        .add("fc2.weight", {classes, hidden})
        .add("fc2.bias", {classes}, kind::bias);
    threads::launch(ranks, [&, &training = training, &held_out = held_out](threads comm) {
      custom_model<images> model{parameters, two_layers};
      batch_source feed{training.size(),
                        comm,
                        {.global_batch = global, .seed = seed},
                        [&](const sample_indices& s) { return read(training, s.samples); }};
      std::vector<images> own;  // this rank's part of the validation
      for (std::uint32_t i = static_cast<std::uint32_t>(comm.rank()); i < held_out.size();
           i += static_cast<std::uint32_t>(comm.size()))
        own.push_back(read(held_out, std::array{i}));
      batch_validation check{std::move(own), [](const images& b) { return b.label.size(); }};
      trainer run{model,
                  lamb{.weight_decay = 0.01},
                  cosine{.peak = learning_rate, .epochs = epochs},
                  ring{comm},
                  {.seed = seed}};
      const auto report = [&](const run_summary& done) {
        if (comm.rank() == 0)
          std::printf("validation accuracy %s %% of %lld images, weights %s\n",
                      decimal::fixed(100 * done.last.validation->accuracy(), 1).c_str(),
                      static_cast<long long>(done.last.validation->count),
                      hash_of(run.weights()).c_str());
      };
      if (folder.empty()) return report(run.fit(feed, until, check, console{}));
#if defined(WITH_CHECKPOINT)
      run.resume(folder);
      report(run.fit(feed, until, check, console{},
                     checkpoint{.folder = folder, .every = {.epochs = 1}}));
#else
      throw usage_error("--checkpoints needs the component checkpoint, which this build has not");
#endif
    });
  });
}
