// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Accuracy after a fixed number of epochs at batches 128, 1,024 and 8,192, by the methods for large
// batches; what each paper claims, and when it counts as seen, is in docs/large_batch.md.
//
//   each method and batch    three learning rates, given for batch 128 and scaled by the method's
//                            rule, by the first seed; the best one, and the best one of batch 128
//                            (the rule without tuning), by all seeds
//
// Batch norm's statistics are of at most 128 images at every batch, as of workers of a constant
// size, and are recalibrated on 4,096 training images before the held-out set is measured. Methods
// of several ranks have 8, as threads; gossip mixes over a ring, on shards of which every class is
// distributed by Dirichlet's distribution (Hsu et al., 2019). A run that does not stay finite has
// accuracy 0.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <cordee/cordee.hpp>

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

/// Indices for each rank: a class's samples in shares that are Dirichlet(alpha, …, alpha).
template <class Data>
std::vector<std::vector<std::size_t>> dirichlet_shards(const Data& data, int ranks, double alpha,
                                                       std::uint64_t seed) {
  std::vector<std::vector<std::size_t>> of_class(static_cast<std::size_t>(data.classes())),
      shards(static_cast<std::size_t>(ranks));
  std::vector<std::uint8_t> pixels(data.image().size());
  for (std::size_t i = 0; i < data.size(); ++i)
    of_class[static_cast<std::size_t>(data.read(i, pixels))].push_back(i);
  std::mt19937_64 random(seed);
  for (const auto& members : of_class) {
    std::gamma_distribution<double> gamma(alpha);
    std::vector<double> share(shards.size());
    for (double& s : share) s = gamma(random) + 1e-12;
    const double total = std::accumulate(share.begin(), share.end(), 0.0);
    double above = 0;
    std::size_t next = 0;
    for (std::size_t rank = 0; rank < shards.size(); ++rank) {
      above += share[rank] / total;
      const auto end = rank + 1 == shards.size()
                           ? members.size()
                           : static_cast<std::size_t>(above * static_cast<double>(members.size()));
      for (; next < end; ++next) shards[rank].push_back(members[next]);
    }
  }
  for (std::size_t rank = 0; rank < shards.size(); ++rank)  // a rank without any gets some
    if (shards[rank].empty()) shards[rank].push_back(rank);
  return shards;
}

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
  double on_shards(const task& t, const O& optimizer, const S& schedule) const {
    const auto shards = dirichlet_shards(training, p.ranks, p.alpha, t.seed);
    double accuracy = 0;
    threads::launch(p.ranks, [&](threads comm) {
      Net net;
      loader feed{detail::data::subset{training, shards[static_cast<std::size_t>(comm.rank())]},
                  self_comm{},
                  options(t.batch / p.ranks, 1, t.seed + static_cast<std::uint64_t>(comm.rank())),
                  augmentation, norm};
      trainer run{net, optimizer, schedule, gossip{comm}, {.seed = t.seed}};
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
enum class rule { linear, root, none };

double scaled_rate(rule r, const task& t) {
  const double k = static_cast<double>(t.batch) / reference_batch;
  return t.rate * (r == rule::linear ? k : r == rule::root ? std::sqrt(k) : 1);
}

template <class E>
struct method {
  std::string name;
  std::array<double, 3> rates;
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
  const std::array of_sgd{0.01, 0.04, 0.16};
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
      {"dmsgd", of_sgd,
       [=](const E& e, const task& t) {
         return e.on_shards(t, local_steps{momentum_sgd, 1}, steps(e, t));
       }},
      {"decentlam", of_sgd,
       [=](const E& e, const task& t) {
         return e.on_shards(t, decentlam{.weight_decay = 1e-4}, steps(e, t));
       }},
      {"qg_dmsgd", of_sgd,
       [=](const E& e, const task& t) {
         return e.on_shards(t, qg_dmsgd{.weight_decay = 1e-4}, steps(e, t));
       }},
  };
}

struct spread {
  double mean = 0, deviation = 0;
};

spread spread_of(const std::vector<double>& x) {
  spread s;
  for (const double v : x) s.mean += v / static_cast<double>(x.size());
  for (const double v : x) s.deviation += (v - s.mean) * (v - s.mean);
  s.deviation = x.size() > 1 ? std::sqrt(s.deviation / static_cast<double>(x.size() - 1)) : 0;
  return s;
}

template <class E>
void compare(const E& e, science::results& table, const std::vector<std::string>& names,
             const std::vector<int>& batches, int seeds) {
  for (const method<E>& m : all_methods<E>()) {
    if (std::find(names.begin(), names.end(), m.name) == names.end()) continue;
    double untuned = 0;  // the best learning rate of the first batch
    for (const int batch : batches) {
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
        return spread_of(values);
      };
      double best = m.rates[0];
      for (const double rate : m.rates)
        if (accuracy(rate, 1) > accuracy(best, 1)) best = rate;
      if (batch == batches[0]) untuned = best;
      const spread tuned = of_seeds(best), ruled = of_seeds(untuned);
      std::printf("%s, batch %d: %.2f +- %.2f %% at %g; by the rule %.2f +- %.2f %% at %g\n",
                  m.name.c_str(), batch, 100 * tuned.mean, 100 * tuned.deviation, best,
                  100 * ruled.mean, 100 * ruled.deviation, untuned);
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

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "methods: accuracy at batches 128 to 8,192 by the methods for large ones");
    const std::string set = o.string("set", "fashion", "fashion (idx files) or cifar10");
    const std::string folder =
        o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist", "folder of the data set's files");
    const std::string out = o.string("out", "methods.csv", "a line for each run");
    const std::vector<std::string> names = split_words(
        o.string("methods",
                 "sgd,sgd_polynomial,lars,lamb,legw,legw_constant,auto_wu,local,post_local,dmsgd,"
                 "decentlam,qg_dmsgd",
                 "which, separated by commas"));
    std::vector<int> batches;
    for (const std::string& word :
         split_words(o.string("batches", "128,1024,8192", "which; the first gives the rates")))
      batches.push_back(std::stoi(word));
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
      compare(e, table, names, batches, seeds);
    };
    if (set == "cifar10") {
      on.template operator()<extent{3, 32, 32}>(cifar10{folder, part::train},
                                                cifar10{folder, part::test});
    } else if (set == "fashion") {
      examples::with_fashion_mnist(folder, [&](const auto& training, const auto& held_out) {
        on.template operator()<extent{1, 28, 28}>(training, held_out);
      });
    } else {
      throw error("--set is fashion or cifar10, not \"" + set + "\"");
    }
  });
}
