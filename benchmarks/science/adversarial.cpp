// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The usable batch with and without adversarial copies, with and without augmentation (Liu et al.,
// 2021): at each batch a run of as many epochs with its learning rate tuned, by the first seed,
// from a grid of three around the linear rule's.
//
//   learning rate   factor 0.1 B / 64 up to B = 256, beyond it growing with the root of B; warm-up
//                   of an eighth of the epochs, then linear to 0
//   usable batch    the largest whose median accuracy over the seeds is within 0.5 % of the median
//                   of the smallest batch, trained in the same way
//
// Passes if without augmentation the usable batch with copies is at least twice that without, and
// with augmentation at least the same. Accuracies on 2,000 held-out images, by batch norm's
// statistics of the moving average; a run of copies is one of as many updates and clean images.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <cordee/cordee.hpp>

#include "benchmarks/science/results.hpp"
#include "examples/data.hpp"
#include "examples/options.hpp"

using namespace cordee;

namespace {

using layers = sequential<convolution<16, 3, 2>, batch_norm<relu>, convolution<32, 3, 2>,
                          batch_norm<relu>, global_average_pool, linear<10>>;
using cnn = network<layers, fp32, cpu, direct, extent{1, 28, 28}, 10>;

/// The first images of a data set.
template <class Data>
struct some_of {
  const Data& data;
  std::size_t count;
  [[nodiscard]] std::size_t size() const { return std::min(count, data.size()); }
  [[nodiscard]] extent image() const { return data.image(); }
  [[nodiscard]] int classes() const { return data.classes(); }
  int read(std::size_t i, std::span<std::uint8_t> pixels) const { return data.read(i, pixels); }
};

template <class Net>
double accuracy(const auto& training, const auto& held_out, bool augments, int batch, double rate,
                double epochs, std::uint64_t seed) {
  const normalize norm = normalize::measured(training);
  Net net;
  loader feed{training,
              self_comm{},
              {.global_batch = batch, .seed = seed},
              augments ? pad_crop_flip{.pad = 2, .flip = true} : pad_crop_flip{},
              norm};
  const double warmup = epochs / 8;
  const auto schedule = [=](double epoch) {
    return epoch < warmup ? rate * (epoch + 1e-3) / warmup
                          : rate * (epochs - epoch) / (epochs - warmup);
  };
  trainer run{net, sgd{.momentum = 0.9, .weight_decay = 1e-4}, schedule, solo{}, {.seed = seed}};
  run.fit(feed, epochs);
  return run.evaluate(held_out, norm).accuracy();
}

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "adversarial: the usable batch with adversarial copies");
    const std::string folder =
        o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist", "folder of idx files");
    const std::string out = o.string("out", "adversarial.csv", "a line for each run");
    const double epochs = o.number("epochs", 8, "of a run");
    const int images = o.positive("images", 12'000, "of the training set, the first ones"),
              largest = o.positive("largest", 4096, "batch; each is four times the one before"),
              seeds = o.positive("seeds", 3, "runs of each batch's best learning rate");
    o.done();
    science::results table(out, "copies,augmented,batch,learning_rate,seed,value,seconds");
    examples::with_fashion_mnist(folder, [&](const auto& all, const auto& all_held_out) {
      const some_of<std::remove_cvref_t<decltype(all)>> training{all,
                                                                 static_cast<std::size_t>(images)};
      const some_of<std::remove_cvref_t<decltype(all_held_out)>> held_out{all_held_out, 2000};
      int usable[2][2] = {};  // (augmented, copies)
      for (const bool augments : {false, true})
        for (const bool copies : {false, true}) {
          double smallest = 0;
          for (int batch = 64; batch <= largest; batch *= 4) {
            const auto run = [&](double rate, int seed) {
              const auto s = static_cast<std::uint64_t>(seed);
              return table(concat(copies, ",", augments, ",", batch, ",", rate, ",", seed), [&] {
                return copies ? accuracy<adversarial<cnn>>(training, held_out, augments, batch,
                                                           rate, epochs, s)
                              : accuracy<cnn>(training, held_out, augments, batch, rate, epochs, s);
              });
            };
            double best = 0, most = -1;
            for (const double factor : {0.25, 1.0, 4.0}) {
              // the linear rule up to batch 256, beyond it that of the root
              const double rate = factor * 0.1 * std::min(batch / 64.0, std::sqrt(batch / 16.0));
              if (const double a = run(rate, 1); a > most) {
                most = a;
                best = rate;
              }
            }
            std::vector<double> of_seeds;
            for (int seed = 1; seed <= seeds; ++seed) of_seeds.push_back(run(best, seed));
            const double a = median(of_seeds);
            if (batch == 64) smallest = a;
            if (a >= smallest - 0.005) usable[augments][copies] = batch;
            const auto [low, high] = std::minmax_element(of_seeds.begin(), of_seeds.end());
            std::printf("%s, %s, batch %d: learning rate %s, accuracy %s (%s to %s)\n",
                        augments ? "augmented" : "plain", copies ? "copies" : "no copies", batch,
                        decimal::general(best, 6).c_str(), decimal::fixed(a, 4).c_str(),
                        decimal::fixed(*low, 4).c_str(), decimal::fixed(*high, 4).c_str());
          }
        }
      for (const bool augments : {false, true})
        std::printf("%s: usable batch %d without copies, %d with\n",
                    augments ? "augmented" : "plain", usable[augments][0], usable[augments][1]);
      std::printf("passes: %s\n",
                  usable[0][1] >= 2 * usable[0][0] && usable[1][1] >= usable[1][0] ? "yes" : "no");
    });
  });
}
