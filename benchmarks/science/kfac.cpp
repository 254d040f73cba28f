// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Updates to an accuracy on Fashion-MNIST by SGD and by K-FAC, each at the best learning rate of a
// grid, which is chosen by the first seed alone. Passes if, over the seeds, K-FAC's median at its
// best setting is less than SGD's.
//
// One line of CSV for each run, then the medians. An accuracy is measured every few updates, on all
// held-out images; a run that does not reach it has the largest number of updates.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include <cordee/cordee.hpp>

#include "examples/data.hpp"
#include "examples/options.hpp"

using namespace cordee;

namespace {

using layers =
    sequential<convolution<16, 3, 2>, batch_norm<relu>, convolution<32, 3, 2>, batch_norm<relu>,
               convolution<64>, batch_norm<relu>, global_average_pool, linear<10>>;
using net_type = network<layers, fp32, cpu, direct, extent{1, 28, 28}, 10>;

struct plan {
  std::string data;
  int ranks, batch, most, every, refresh;
  double target;
};

struct outcome {
  int steps;        // until the target, or all of them
  double accuracy;  // when it was measured last
};

template <class O>
outcome steps_to_target(const plan& p, const O& optimizer, double learning_rate,
                        std::uint64_t seed) {
  outcome result{p.most, 0};
  examples::with_fashion_mnist(p.data, [&](const auto& training, const auto& held_out) {
    const auto norm = normalize::measured(training);
    threads::launch(p.ranks, [&](threads comm) {
      net_type net;
      loader feed{training, comm, {.global_batch = p.batch, .seed = seed}, pad_crop_flip{}, norm};
      const double warm = 20.0 * p.batch / static_cast<double>(training.size());  // 20 updates
      trainer run{
          net, optimizer, warmup{warm, constant{learning_rate}}, ring{comm}, {.seed = seed}};
      for (int k = 1; k <= p.most; ++k) {
        const auto micro = feed.next();
        run.step(micro, feed.epoch(k - 1));
        if (k % p.every != 0) continue;
        const double accuracy = run.evaluate(held_out, norm).accuracy();
        if (comm.rank() == 0) result = {k, accuracy};
        if (accuracy >= p.target) break;
      }
    });
  });
  return result;
}

struct setting {
  const char* method;
  double learning_rate, damping;
  std::vector<int> steps;  // by seed
};

void measure(const plan& p, setting& s, std::uint64_t seed) {
  const auto start = std::chrono::steady_clock::now();
  const outcome done =
      s.damping > 0
          ? steps_to_target(p, kfac{velocity_sgd{.momentum = 0.9}, s.damping, 16, p.refresh},
                            s.learning_rate, seed)
          : steps_to_target(p, sgd{.momentum = 0.9}, s.learning_rate, seed);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  s.steps.push_back(done.steps);
  std::printf("%s,%s,%s,%llu,%d,%s,%s\n", s.method, decimal::general(s.learning_rate, 6).c_str(),
              decimal::general(s.damping, 6).c_str(), static_cast<unsigned long long>(seed),
              done.steps, decimal::fixed(done.accuracy, 4).c_str(),
              decimal::fixed(seconds, 1).c_str());
  std::fflush(stdout);
}

/// The fewest updates of the first seed.
setting& best_of(std::vector<setting>& all, bool with_damping) {
  setting* best = nullptr;
  for (setting& s : all)
    if ((s.damping > 0) == with_damping && (best == nullptr || s.steps[0] < best->steps[0]))
      best = &s;
  return *best;
}
int median(std::vector<int> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "kfac: updates to an accuracy on Fashion-MNIST, SGD and K-FAC");
    plan p;
    p.data =
        o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                 "folder of the idx files; with the training files in it, all 60,000 are used");
    p.ranks = o.positive("ranks", 2, "workers, one thread each");
    p.batch = o.positive("batch", 512, "samples of one update");
    p.most = o.positive("most", 600, "updates after which a run ends");
    p.every = o.positive("every", 10, "updates from one measurement to the next");
    p.refresh = o.positive("refresh", 5, "updates for which K-FAC keeps its factors");
    p.target = o.number("target", 0.88, "accuracy on the held-out images");
    const int seeds = o.positive("seeds", 3, "runs of the best setting of each method");
    o.done();
    std::vector<setting> all;
    for (const double rate : {0.03, 0.1, 0.3, 1.0}) all.push_back({"sgd", rate, 0, {}});
    for (const double damping : {0.01, 0.001})
      for (const double rate : {0.01, 0.03, 0.1}) all.push_back({"kfac", rate, damping, {}});
    std::printf("method,learning_rate,damping,seed,updates,accuracy,seconds\n");
    for (setting& s : all) measure(p, s, 1);
    setting &first = best_of(all, false), &natural = best_of(all, true);
    for (int seed = 2; seed <= seeds; ++seed)
      for (setting* s : {&first, &natural}) measure(p, *s, static_cast<std::uint64_t>(seed));
    for (setting* s : {&first, &natural}) {
      const auto [least, most] = std::minmax_element(s->steps.begin(), s->steps.end());
      std::printf("%s, learning rate %s, damping %s: median %d updates, %d to %d\n", s->method,
                  decimal::general(s->learning_rate, 6).c_str(),
                  decimal::general(s->damping, 6).c_str(), median(s->steps), *least, *most);
    }
    const bool passes = median(natural.steps) < median(first.steps);
    std::printf("fewer updates by K-FAC: %s\n", passes ? "yes" : "no");
  });
}
