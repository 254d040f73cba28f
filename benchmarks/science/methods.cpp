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
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <cordee/cordee.hpp>

#include "benchmarks/science/method_list.hpp"
#include "benchmarks/science/method_runs.hpp"
#include "benchmarks/science/results.hpp"
#include "benchmarks/science/small_cnn.hpp"
#include "examples/data.hpp"
#include "examples/options.hpp"

using namespace cordee;
using namespace science;

namespace {

template <class E>
void compare(const E& e, const std::vector<std::string>& names, const std::vector<double>& rates,
             const std::vector<double>& batches, int seeds) {
  std::vector<method<E>> all = all_methods<E>();
  for (method<E>& m : all) {
    if (!names.empty() && std::find(names.begin(), names.end(), m.name) == names.end()) continue;
    if (!rates.empty()) m.rates = rates;
    double untuned = 0;  // the best learning rate of the first batch
    for (const double of_run : batches) {
      const int batch = static_cast<int>(of_run);
      const auto accuracy = [&](double rate, int seed) {
        const task t{batch, rate, static_cast<std::uint64_t>(seed)};
        return e.table(e.key(m.name, t), [&]() -> double {
          try {
            return m.accuracy(e, t);
          } catch (const error& failure) {  // another failure, such as a deadline, is no result
            if (std::string_view(failure.what()).find("a NaN or an infinity") ==
                std::string_view::npos)
              throw;
            std::fprintf(stderr, "%s\n", failure.what());
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
    p.alpha =
        o.number("alpha", reference_alpha, "of Dirichlet's distribution: less is more different");
    p.shards = static_cast<std::uint64_t>(
        o.whole("shards", 0, "seed of the ranks' shards; 0: that of the run"));
    p.ranks = o.positive("ranks", 8, "of local SGD and gossip");
    p.period = o.positive("period", 8, "local steps between averages");
    p.micro = o.positive("micro", 128, "images of a micro-batch: batch norm's and LookSAM's");
    const int workers = o.positive("workers", cpu::default_workers(), "threads of a single rank");
    const int seeds = o.positive("seeds", 3, "runs of the best learning rate");
    const bool augments = o.flag("augment", "crops, and flips, at random");
    p.measures_fit = o.flag("training-images", "accuracy on 10,000 of them, not on the test set");
    o.done();
    const cpu::worker_limit limit(workers);
    science::results table(out,
                           "method,augmentation,epochs,batch,learning_rate,seed,value,seconds");
    const pad_crop_flip augmentation =
        augments ? pad_crop_flip{.pad = 2, .flip = true} : pad_crop_flip{};
    const auto on = [&]<extent Image>(const auto& training, const auto& held_out) {
      const experiment<science::small_cnn<Image>, std::remove_cvref_t<decltype(training)>,
                       std::remove_cvref_t<decltype(held_out)>>
          e{training, held_out, augmentation, normalize::measured(training), p, augments, table};
      compare(e, names, rates, batches, seeds);
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
