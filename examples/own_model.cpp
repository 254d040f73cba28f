// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A model of your own, without the library's layers: softmax regression on Fashion-MNIST, with its
// backward by hand. It trains over a ring like any network.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include <cordee/cordee.hpp>

#include "options.hpp"

using namespace cordee;

namespace {

// z = W x + b, loss = log(sum_k exp(z_k)) - z_y for an image x of class y (Bishop 2006, 4.3.4):
//   dz_k = softmax(z)_k - [k = y],  dW = dz x^T,  db = dz
struct softmax_regression {
  using precision = fp32;  // `precision::master` is the type of weights and gradients
  using device = cpu;
  static constexpr extent input{1, 28, 28};
  static constexpr int classes = 10;
  static constexpr std::size_t pixels = input.size();

  // In forward order. Offsets are in numbers, multiples of 64; `shape` is for files.
  static constexpr std::array<segment, 2> table{
      segment{"fc.weight", kind::weight, 0, classes* pixels, {classes, pixels}},
      segment{"fc.bias", kind::bias, 7872, classes, {classes}}};
  static constexpr std::span<const segment> segments() { return table; }

  // What kernels read; here a copy of the weights, so that an average can be evaluated, too.
  using packed_parameters = buffer<float, cpu>;

  cpu processor{1};
  std::vector<float> x, dz;  // (N, pixels), (N, classes), of the last forward
  metrics sums{};

  [[nodiscard]] cpu get_device() const { return processor; }
  void initialize(span_on<float, cpu> plane, std::uint64_t) const {
    std::fill(plane.begin(), plane.end(), 0.0F);
  }
  [[nodiscard]] packed_parameters make_packed_parameters() const {
    return packed_parameters(processor, table[1].end());
  }
  void pack_parameters(span_on<float, cpu> plane, packed_parameters& to, cpu::stream) const {
    std::copy_n(plane.begin(), to.span().size, to.span().begin());
  }

  void forward(const packed_parameters& packed, span_on<float, cpu>, const batch<cpu>& b, phase,
               cpu::stream) {
    const auto count = static_cast<std::size_t>(b.count);
    const auto w = packed.span();
    x.resize(count * pixels);
    dz.resize(count * classes);
    sums = metrics{.count = b.count};
    for (std::size_t n = 0; n < count; ++n) {
      for (std::size_t i = 0; i < pixels; ++i)
        x[n * pixels + i] =
            (static_cast<float>(b.pixels[n * pixels + i]) / 255 - b.normalization.mean[0]) *
            b.normalization.scale[0];
      std::array<double, classes> z{};
      for (std::size_t k = 0; k < classes; ++k) {
        z[k] = static_cast<double>(w[table[1].offset + k]);
        for (std::size_t i = 0; i < pixels; ++i)
          z[k] += static_cast<double>(w[k * pixels + i] * x[n * pixels + i]);
      }
      const auto label = static_cast<std::size_t>(b.labels[n]);
      const double largest = *std::max_element(z.begin(), z.end());
      double total = 0;
      for (const double logit : z) total += std::exp(logit - largest);
      sums.loss += largest + std::log(total) - z[label];
      sums.top1 += z[label] == largest;
      sums.top5 += std::count_if(z.begin(), z.end(), [&](double q) { return q > z[label]; }) < 5;
      // loss_weight(): samples, ranks and loss scale, so that the reduced gradient is the mean's.
      for (std::size_t k = 0; k < classes; ++k)
        dz[n * classes + k] = static_cast<float>(
            b.loss_weight() * (std::exp(z[k] - largest) / total - (k == label ? 1 : 0)));
    }
  }

  // Adds to the gradients; ready(k) for each trainable segment, the last first.
  template <class Ready>
  void backward(const packed_parameters&, span_on<float, cpu> grads, write_mode, Ready&& ready,
                cpu::stream) {
    const std::size_t count = dz.size() / classes;
    for (std::size_t n = 0; n < count; ++n)
      for (std::size_t k = 0; k < classes; ++k) grads[table[1].offset + k] += dz[n * classes + k];
    ready(1);
    for (std::size_t n = 0; n < count; ++n)
      for (std::size_t k = 0; k < classes; ++k)
        for (std::size_t i = 0; i < pixels; ++i)
          grads[k * pixels + i] += dz[n * classes + k] * x[n * pixels + i];
    ready(0);
  }
  [[nodiscard]] metrics read_metrics(cpu::stream) const { return sums; }
};
static_assert(Model<softmax_regression>);

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "own_model: a model of your own (softmax regression)");
    const std::string at = o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                                    "folder of Fashion-MNIST's idx files (t10k-…)");
    const int ranks = o.positive("ranks", 4, "ranks in this process");
    const int global = o.positive("batch", 256, "samples of one update, over all ranks");
    const double epochs = o.number("epochs", 5, "passes over 9,000 images");
    const double learning_rate = o.number("learning-rate", 0.02, "peak learning rate");
    const std::uint64_t seed = o.seed();
    o.done();

    const idx images{at + "/t10k-images-idx3-ubyte", at + "/t10k-labels-idx1-ubyte"};
    const auto [training, held_out] = split(images, 0.1, 1);
    threads::launch(ranks, [&, &training = training, &held_out = held_out](threads comm) {
      softmax_regression net;
      loader feed{training,
                  comm,
                  {.global_batch = global, .seed = seed},
                  {},
                  normalize::measured(training)};
      trainer run{net,
                  lamb{.weight_decay = 0.01},
                  cosine{.peak = learning_rate, .epochs = epochs},
                  ring{comm},
                  {.seed = seed}};
      const auto done = run.fit(feed, epochs, validation{held_out}, console{});
      if (comm.rank() == 0)
        std::printf("validation accuracy %s %% of %lld images\n",
                    decimal::fixed(100 * done.last.validation->accuracy(), 1).c_str(),
                    static_cast<long long>(done.last.validation->count));
    });
  });
}
