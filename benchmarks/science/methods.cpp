// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Accuracy after a fixed number of epochs at batches 128, 1,024 and 8,192, by the methods for large
// batches; what each paper claims, and when it counts as reproduced, is in docs/large_batch.md.
//
//   each method and batch    three learning rates, given for batch 128 and scaled by the method's
//                            rule, by the first seed; the best one, and the best one of batch 128
//                            (the rule without tuning), by all seeds
//
// Batch norm's statistics are of at most 128 images at every batch, as of workers of a constant
// size, and are recalibrated on 4,096 training images before the held-out set is measured. Methods
// of several ranks have 8, as threads; gossip mixes over a ring, on shards of which every class is
// distributed by Dirichlet's distribution (Hsu et al., 2019); "_synced" has batch norm's statistics
// over all ranks. A run that does not stay finite has accuracy 0.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include <cordee/cordee.hpp>

#include "benchmarks/science/dirichlet_shards.hpp"
#include "benchmarks/science/results.hpp"
#include "benchmarks/science/small_cnn.hpp"
#include "examples/data.hpp"
#include "examples/options.hpp"

using namespace cordee;

namespace {

struct plan {
  double epochs, warmup_epochs, legw_epochs, alpha;
  int ranks, period;
};
struct task {
  int batch;
  double rate;  // of batch 128
  std::uint64_t seed;
};
constexpr int reference_batch = 128;

template <class Net, class Training, class HeldOut>
struct experiment {
  const Training& training;
  const HeldOut& held_out;
  pad_crop_flip augmentation;
  normalize norm;
  plan p;
  bool augments;

  [[nodiscard]] loader_options options(int batch, int ranks, std::uint64_t seed) const {
    return {.global_batch = batch,
            .accumulate = std::max(1, batch / ranks / reference_batch),
            .seed = seed};
  }
  template <class Run, class Comm>
  double measure(Run& run, const Comm& comm) const {
    loader sample{
        training, comm, {.global_batch = 1024, .accumulate = 1, .seed = 99}, augmentation, norm};
    recalibrate(run, sample, 4);
    return run.evaluate(held_out, norm).accuracy();
  }
  template <class O, class S>
  double on_one(const task& t, const O& optimizer, const S& schedule) const {
    Net net;
    loader feed{training, self_comm{}, options(t.batch, 1, t.seed), augmentation, norm};
    trainer run{net, optimizer, schedule, solo{}, {.seed = t.seed}};
    run.fit(feed, p.epochs);
    return measure(run, self_comm{});
  }
  template <class O, class S>
  double on_ranks(const task& t, const O& optimizer, const S& schedule) const {
    double accuracy = 0;
    threads::launch(p.ranks, [&](threads comm) {
      Net net;
      loader feed{training, comm, options(t.batch, p.ranks, t.seed), augmentation, norm};
      trainer run{net, optimizer, schedule, ring{comm}, {.seed = t.seed}};
      run.fit(feed, p.epochs);
      const double measured = measure(run, comm);
      if (comm.rank() == 0) accuracy = measured;
    });
    return accuracy;
  }
  template <class O, class S>
  double on_shards(const task& t, const O& optimizer, const S& schedule,
                   int batch_norm_over = 1) const {
    const auto shards = science::dirichlet_shards(training, p.ranks, p.alpha, t.seed);
    double accuracy = 0;
    threads::launch(p.ranks, [&](threads comm) {
      Net net;
      loader feed{detail::data::subset{training, shards[static_cast<std::size_t>(comm.rank())]},
                  self_comm{},
                  options(t.batch / p.ranks, 1, t.seed + static_cast<std::uint64_t>(comm.rank())),
                  augmentation, norm};
      trainer run{net,
                  optimizer,
                  schedule,
                  gossip{comm},
                  {.batch_norm_over = batch_norm_over, .seed = t.seed}};
      const double samples = static_cast<double>(training.size());
      for (int k = 0; k * t.batch < p.epochs * samples; ++k)
        run.step(feed.next(), k * t.batch / samples);
      const double measured = measure(run, comm);
      if (comm.rank() == 0) accuracy = measured;
    });
    return accuracy;
  }
};

/// The learning rate for a batch, from that for the reference batch.
enum class rule { linear, root };

double scaled_rate(rule r, const task& t) {
  const double k = static_cast<double>(t.batch) / reference_batch;
  return t.rate * (r == rule::linear ? k : std::sqrt(k));
}

template <class E>
struct method {
  std::string name;
  std::vector<double> rates;
  std::function<double(const E&, const task&)> accuracy;
};
template <class E>
std::vector<method<E>> all_methods() {
  const auto steps = [](const E& e, const task& t) {
    return warmup{e.p.warmup_epochs,
                  multistep{scaled_rate(rule::linear, t), {e.p.epochs / 2, 0.75 * e.p.epochs}}};
  };
  const auto decay = [](const E& e, rule r, const task& t, double power) {
    return warmup{e.p.warmup_epochs, polynomial{scaled_rate(r, t), e.p.epochs, power}};
  };
  constexpr sgd momentum_sgd{.momentum = 0.9, .weight_decay = 1e-4};
  const std::vector of_sgd{0.01, 0.04, 0.16};
  constexpr int all_ranks = 0;
  const auto on_shards = [=](const auto& optimizer, int batch_norm_over) {
    return [=](const E& e, const task& t) {
      return e.on_shards(t, optimizer, steps(e, t), batch_norm_over);
    };
  };
  return {
      {"sgd", of_sgd,
       [=](const E& e, const task& t) { return e.on_one(t, momentum_sgd, steps(e, t)); }},
      {"sgd_polynomial", of_sgd,
       [=](const E& e, const task& t) {
         return e.on_one(t, momentum_sgd, decay(e, rule::linear, t, 2));
       }},
      {"lars",
       {0.5, 2, 8},
       [=](const E& e, const task& t) { return e.on_one(t, lars{}, decay(e, rule::root, t, 2)); }},
      {"lamb",
       {0.001, 0.004, 0.016},
       [=](const E& e, const task& t) { return e.on_one(t, lamb{}, decay(e, rule::root, t, 1)); }},
      {"legw", of_sgd,
       [=](const E& e, const task& t) {
         return e.on_one(
             t, momentum_sgd,
             legw{e.p.legw_epochs, polynomial{t.rate, e.p.epochs, 2}, reference_batch, t.batch});
       }},
      {"legw_constant", of_sgd,
       [=](const E& e, const task& t) {
         return e.on_one(t, momentum_sgd,
                         legw{e.p.legw_epochs, constant{t.rate}, reference_batch, t.batch});
       }},
      {"auto_wu",
       {0.25, 1, 4},
       [=](const E& e, const task& t) {
         return e.on_one(t, momentum_sgd,
                         auto_wu{.epochs = e.p.epochs, .max_learning_rate = t.rate});
       }},
      {"local", of_sgd,
       [=](const E& e, const task& t) {
         return e.on_ranks(t, local_steps{momentum_sgd, e.p.period}, steps(e, t));
       }},
      {"post_local", of_sgd,
       [=](const E& e, const task& t) {
         return e.on_ranks(t, local_steps{momentum_sgd, e.p.period, e.p.epochs / 2}, steps(e, t));
       }},
      {"dmsgd", of_sgd, on_shards(local_steps{momentum_sgd, 1}, 1)},
      {"decentlam", of_sgd,
       on_shards(decentlam{.weight_decay = 1e-4, .momentum_correction = false}, 1)},
      {"qg_dmsgd", of_sgd, on_shards(qg_dmsgd{.weight_decay = 1e-4}, 1)},
      {"dmsgd_synced", of_sgd, on_shards(local_steps{momentum_sgd, 1}, all_ranks)},
      {"decentlam_synced", of_sgd,
       on_shards(decentlam{.weight_decay = 1e-4, .momentum_correction = false}, all_ranks)},
      {"qg_dmsgd_synced", of_sgd, on_shards(qg_dmsgd{.weight_decay = 1e-4}, all_ranks)},
  };
}

template <class E>
void compare(const E& e, science::results& table, const std::vector<std::string>& names,
             const std::vector<double>& rates, const std::vector<double>& batches, int seeds) {
  std::vector<method<E>> all = all_methods<E>();
  for (method<E>& m : all) {
    if (!names.empty() && std::find(names.begin(), names.end(), m.name) == names.end()) continue;
    if (!rates.empty()) m.rates = rates;
    double untuned = 0;  // the best learning rate of the first batch
    for (const double of_run : batches) {
      const int batch = static_cast<int>(of_run);
      const auto accuracy = [&](double rate, int seed) {
        return table(concat(m.name, e.augments ? ",crop and flip," : ",none,", e.p.epochs, ",",
                            batch, ",", rate, ",", seed),
                     [&]() -> double {
                       try {
                         return m.accuracy(e, {batch, rate, static_cast<std::uint64_t>(seed)});
                       } catch (const error& diverged) {
                         std::fprintf(stderr, "%s\n", diverged.what());
                         return 0;
                       }
                     });
      };
      const auto of_seeds = [&](double rate) {
        std::vector<double> values;
        for (int seed = 1; seed <= seeds; ++seed) values.push_back(accuracy(rate, seed));
        return science::spread_of(values);
      };
      double best = m.rates[0];
      for (const double rate : m.rates)
        if (accuracy(rate, 1) > accuracy(best, 1)) best = rate;
      if (of_run == batches[0]) untuned = best;
      const science::spread tuned = of_seeds(best), ruled = of_seeds(untuned);
      std::printf("%s, batch %d: %s +- %s %% at %s; by the rule %s +- %s %% at %s\n",
                  m.name.c_str(), batch, decimal::fixed(100 * tuned.mean, 2).c_str(),
                  decimal::fixed(100 * tuned.deviation, 2).c_str(),
                  decimal::general(best, 6).c_str(), decimal::fixed(100 * ruled.mean, 2).c_str(),
                  decimal::fixed(100 * ruled.deviation, 2).c_str(),
                  decimal::general(untuned, 6).c_str());
      std::fflush(stdout);
    }
  }
}

std::vector<std::string> split_words(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');) words.push_back(word);
  return words;
}
std::vector<double> split_numbers(const std::string& text) {
  std::vector<double> numbers;
  for (const std::string& word : split_words(text)) {
    const auto number = decimal::parse<double>(word);
    if (!number || !(*number > 0))
      throw error("expected positive numbers separated by commas, not \"" + text + "\"");
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "methods: accuracy at batches 128 to 8,192 by the methods for large ones");
    const std::string set = o.string("set", "fashion", "fashion (idx files) or cifar10");
    const std::string folder =
        o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist", "folder of the data set's files");
    const std::string out = o.string("out", "methods.csv", "a line for each run");
    const auto names = split_words(o.string("methods", "", "which; all, if none is named"));
    const auto batches = split_numbers(o.string("batches", "128,1024,8192", "which"));
    const auto rates = split_numbers(o.string("rates", "", "at batch 128; else the method's"));
    plan p;
    p.epochs = o.number("epochs", 10, "of every run");
    p.warmup_epochs = o.number("warmup", p.epochs / 10, "epochs of warm-up, but LEGW's");
    p.legw_epochs = o.number("legw-warmup", 0.1, "epochs of LEGW's warm-up at batch 128");
    p.alpha = o.number("alpha", 0.1, "of Dirichlet's distribution: less is more different");
    p.ranks = o.positive("ranks", 8, "of local SGD and gossip");
    p.period = o.positive("period", 8, "local steps between averages");
    const int seeds = o.positive("seeds", 3, "runs of the best learning rate");
    const bool augments = o.flag("augment", "crops, and flips, at random");
    o.done();
    science::results table(out,
                           "method,augmentation,epochs,batch,learning_rate,seed,value,seconds");
    const pad_crop_flip augmentation =
        augments ? pad_crop_flip{.pad = 2, .flip = true} : pad_crop_flip{};
    const auto on = [&]<extent Image>(const auto& training, const auto& held_out) {
      const experiment<science::small_cnn<Image>, std::remove_cvref_t<decltype(training)>,
                       std::remove_cvref_t<decltype(held_out)>>
          e{training, held_out, augmentation, normalize::measured(training), p, augments};
      compare(e, table, names, rates, batches, seeds);
    };
    if (set == "cifar10") {
      on.template operator()<extent{3, 32, 32}>(cifar10{folder, cifar10::train},
                                                cifar10{folder, cifar10::test});
    } else if (set == "fashion") {
      examples::with_fashion_mnist(folder, [&](const auto& training, const auto& held_out) {
        on.template operator()<extent{1, 28, 28}>(training, held_out);
      });
    } else {
      throw error("--set is fashion or cifar10, not \"" + set + "\"");
    }
  });
}
