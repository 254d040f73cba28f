// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Updates to a target accuracy against the batch, with the learning rate tuned again at each batch
// (Shallue et al., 2018), beside what the gradient noise scale predicts (McCandlish et al., 2018).
//
//   each batch  learning rates 4^k / 20 by the first seed, then the neighbors at half and twice the
//               best one; of the best of these the median of all seeds
//   fit         S = S_min + E_min / B, B_crit = E_min / S_min
//   noise       the mean over the run at the batch in the middle, of two ranks
//
// Passes if samples to the target at the largest batch are at least twice the fewest (the bend is
// there), the fit's relative error is below 0.35, and noise scale and B_crit are within a factor of
// four. Accuracies are measured every 5 % of the updates made, on 2,000 held-out images, by batch
// norm's statistics of 512 training images: its moving averages lag behind a run of few updates. A
// run that does not reach the target has the largest number of updates.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <cordee/cordee.hpp>

#include "benchmarks/science/results.hpp"
#include "examples/data.hpp"
#include "examples/options.hpp"

using namespace cordee;

namespace {

using layers =
    sequential<convolution<16, 3, 2>, batch_norm<relu>, convolution<32, 3, 2>, batch_norm<relu>,
               convolution<64>, batch_norm<relu>, global_average_pool, linear<10>>;
using cnn = network<layers, fp32, cpu, direct, extent{1, 28, 28}, 10>;
using resnet8 = resnet<8, fp32, cpu>;

struct plan {
  double target;
  int samples;  // of a run, at most
};

/// Images [first, first + count) of another data set.
template <class Data>
struct some_of {
  const Data& data;
  std::size_t count;
  [[nodiscard]] std::size_t size() const { return std::min(count, data.size()); }
  [[nodiscard]] extent image() const { return data.image(); }
  [[nodiscard]] int classes() const { return data.classes(); }
  int read(std::size_t i, std::span<std::uint8_t> pixels) const { return data.read(i, pixels); }
};

template <class Net, class Training, class HeldOut, class Augmentation>
struct experiment {
  const Training& training;
  const HeldOut& held_out;
  Augmentation augmentation;
  normalize norm;
  plan p;

  [[nodiscard]] int most_updates(int batch) const { return p.samples / batch; }

  /// Updates to the target.
  double updates(int batch, double rate, std::uint64_t seed) const {
    Net net;
    loader feed{training, self_comm{}, {.global_batch = batch, .seed = seed}, augmentation, norm};
    trainer run{net, sgd{.momentum = 0.9}, constant{rate}, solo{}, {.seed = seed}};
    loader sample{training, self_comm{}, {.global_batch = 512, .seed = 99}, augmentation, norm};
    int measured_at = 0;
    for (int k = 1; k <= most_updates(batch); ++k) {
      run.step(feed.next(), feed.epoch(k - 1));
      if (k < measured_at + std::max(1, measured_at / 20)) continue;
      measured_at = k;
      recalibrate(run, sample, 1);
      if (run.evaluate(held_out, norm).accuracy() >= p.target) return k;
    }
    return most_updates(batch);
  }
  /// The noise scale over so many updates, of two ranks.
  double noise_scale(int batch, double rate, double updates) const {
    double scale = 0;
    threads::launch(2, [&](threads comm) {
      Net net;
      loader feed{training, comm, {.global_batch = batch, .seed = 1}, augmentation, norm};
      trainer run{net,
                  sgd{.momentum = 0.9},
                  constant{rate},
                  ring{comm},
                  {.measure_gradient_noise = true, .seed = 1}};
      run.fit(feed, updates * batch / static_cast<double>(training.size()));
      if (comm.rank() == 0) scale = run.fit_state().noise.scale();
    });
    return scale;
  }
};

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

struct tuned {
  double rate = 0, updates = 0;
};

template <class Experiment>
void compare(const Experiment& e, science::results& table, const std::vector<int>& batches,
             int seeds) {
  std::vector<critical_batch::run> runs;
  std::map<int, tuned> best;
  for (const int batch : batches) {
    const auto updates = [&](double rate, int seed) {
      return table(concat("updates,", batch, ",", rate, ",", seed),
                   [&] { return e.updates(batch, rate, static_cast<std::uint64_t>(seed)); });
    };
    tuned& of_batch = best[batch];
    of_batch.updates = 1e300;
    const auto attempt = [&](double rate) {
      const double n = updates(rate, 1);
      if (n < of_batch.updates) of_batch = {rate, n};
    };
    for (double rate = 0.0125; rate < 4; rate *= 4) attempt(rate);
    const double middle = of_batch.rate;
    attempt(middle / 2);
    attempt(middle * 2);
    std::vector<double> of_seeds;
    for (int seed = 1; seed <= seeds; ++seed) of_seeds.push_back(updates(of_batch.rate, seed));
    of_batch.updates = median(of_seeds);
    const auto [least, most] = std::minmax_element(of_seeds.begin(), of_seeds.end());
    std::printf("batch %d: learning rate %s, median %s updates (%s to %s), %s samples\n", batch,
                decimal::general(of_batch.rate, 6).c_str(),
                decimal::general(of_batch.updates, 6).c_str(), decimal::general(*least, 6).c_str(),
                decimal::general(*most, 6).c_str(),
                decimal::general(batch * of_batch.updates, 6).c_str());
    if (of_batch.updates < e.most_updates(batch))
      runs.push_back({static_cast<double>(batch), of_batch.updates});
  }
  const critical_batch fit = critical_batch::fit(runs);
  const int middle = batches[batches.size() / 2];
  const double noise = table(concat("noise,", middle, ",", best[middle].rate, ",1"), [&] {
    return e.noise_scale(middle, best[middle].rate, best[middle].updates);
  });
  double fewest = 1e300;
  for (const critical_batch::run& r : runs) fewest = std::min(fewest, r.batch * r.updates);
  const double at_largest = runs.back().batch * runs.back().updates;
  std::printf("S_min %s updates, E_min %s samples, B_crit %s, relative error %s\n",
              decimal::general(fit.fewest_updates, 3).c_str(),
              decimal::general(fit.fewest_samples, 3).c_str(),
              decimal::general(fit.batch(), 3).c_str(),
              decimal::fixed(fit.relative_error, 2).c_str());
  std::printf("noise scale at batch %d: %s, %s times B_crit\n", middle,
              decimal::general(noise, 3).c_str(), decimal::fixed(noise / fit.batch(), 2).c_str());
  std::printf("samples at the largest batch: %s times the fewest\n",
              decimal::fixed(at_largest / fewest, 2).c_str());
  const double ratio = noise / fit.batch();
  const bool passes =
      at_largest >= 2 * fewest && fit.relative_error < 0.35 && ratio > 0.25 && ratio < 4;
  std::printf("passes: %s\n", passes ? "yes" : "no");
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(
        argc, argv,
        "critical_batch: updates to a target against the batch, learning rate tuned "
        "at each");
    const std::string network = o.string("network", "cnn", "cnn (idx files) or resnet8 (CIFAR-10)");
    const std::string folder = o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                                        "folder of MNIST's or CIFAR-10's files");
    const std::string out = o.string("out", "critical_batch.csv", "a line for each run");
    const plan p{o.number("target", 0.85, "accuracy on held-out images"),
                 o.positive("samples", 400'000, "of a run, at most")};
    const int smallest = o.positive("smallest", 16, "batch"),
              largest = o.positive("largest", 4096, "batch"),
              factor = o.positive("factor", 2, "of a batch and the one before, 2 or more"),
              seeds = o.positive("seeds", 3, "runs of each batch's best learning rate");
    o.done();
    std::vector<int> batches;
    if (factor < 2) throw error("--factor is 2 or more");
    for (int b = smallest; b <= largest; b *= factor) batches.push_back(b);
    science::results table(out, "what,batch,learning_rate,seed,value,seconds");
    const auto on = [&]<class Net>(const auto& training, const auto& all_held_out,
                                   const auto& augmentation, const Net*) {
      const some_of<std::remove_cvref_t<decltype(all_held_out)>> held_out{all_held_out, 2000};
      const experiment<Net, std::remove_cvref_t<decltype(training)>,
                       std::remove_cvref_t<decltype(held_out)>,
                       std::remove_cvref_t<decltype(augmentation)>>
          e{training, held_out, augmentation, normalize::measured(training), p};
      compare(e, table, batches, seeds);
    };
    if (network == "resnet8") {
      on(cifar10{folder, cifar10::train}, cifar10{folder, cifar10::test},
         pad_crop_flip{.pad = 4, .flip = true}, static_cast<const resnet8*>(nullptr));
    } else if (network == "cnn") {
      examples::with_fashion_mnist(folder, [&](const auto& training, const auto& held_out) {
        on(training, held_out, pad_crop_flip{}, static_cast<const cnn*>(nullptr));
      });
    } else {
      throw error("--network is cnn or resnet8, not \"" + network + "\"");
    }
  });
}
