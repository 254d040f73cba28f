// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How far the batch can grow: the same ResNet-8 for the same number of epochs, with batches from
// 128 to 8192, under sgd, lars or lamb. Nothing is tuned on the way: rates and warm-up follow from
// those of batch 128 by LEGW or by linear scaling. A batch that does not fit a worker's memory at
// once is accumulated.
#include <cstdio>
#include <fstream>
#include <functional>
#include <vector>

#include <cordee/cordee.hpp>

#include "data.hpp"
#include "options.hpp"

using namespace cordee;

namespace {

struct plan {
  std::string data, rule, scaling, csv;
  std::vector<int> batches;
  int ranks, at_once, reference;
  double epochs, warmup, rate;
  std::uint64_t seed;
  bool talks;
};

// f(the rule), a type for each: the trainer is made of it when the program compiles.
template <class F>
void with_rule(const std::string& name, const F& f) {
  if (name == "sgd") return f(sgd{.momentum = 0.9, .weight_decay = 5e-4});
  if (name == "lars") return f(lars{.momentum = 0.9, .weight_decay = 5e-4, .trust = 0.01});
  if (name == "lamb") return f(lamb{.weight_decay = 0.01});
  throw error("--rule takes sgd, lars or lamb, not \"" + name + "\"");
}

// The peak rate at batch 128 unless it is given.
double usual_rate(const std::string& rule) {
  return rule == "sgd" ? 0.05 : rule == "lars" ? 0.5 : 0.005;
}

// LEGW: rate x sqrt(k), warm-up epochs x k. Linear (Goyal et al. 2017): rate x k, warm-up as it is.
std::function<double(double)> schedule(const plan& p, int batch) {
  const polynomial decay{.peak = p.rate, .epochs = p.epochs, .power = 2};
  if (p.scaling == "legw") return legw{p.warmup, decay, p.reference, batch};
  if (p.scaling == "linear") return warmup{p.warmup, linear_scaled{decay, p.reference, batch}};
  throw error("--scaling takes legw or linear, not \"" + p.scaling + "\"");
}

struct result {
  std::int64_t steps = 0;
  int accumulate = 1;
  double peak = 0, loss = 0, accuracy = 0;
};

template <class Rule, class Training, class Held>
result train(const plan& p, int batch, const Rule& rule, const Training& training,
             const Held& held) {
  result r;
  const int per_step = p.ranks * p.at_once;
  r.accumulate = (batch + per_step - 1) / per_step;
  threads::launch(p.ranks, [&](threads link) {
    resnet<8, fp32, cpu, shape{.image = {1, 28, 28}, .zero_gamma = false}> net;
    loader feed{training,
                link,
                {.global_batch = batch, .accumulate = r.accumulate, .seed = p.seed},
                augment{.pad = 2, .flip = true},
                normalise::measured(training)};
    trainer run{net, rule, schedule(p, batch), ring{link}, {.seed = p.seed}};
    const auto done = p.talks ? run.fit(feed, p.epochs, held_out{held}, console{})
                              : run.fit(feed, p.epochs, held_out{held});
    if (link.rank() != 0) return;
    r.steps = done.steps;
    for (std::int64_t k = 0; k < done.steps; ++k)
      r.peak = std::max(r.peak, run.schedule()(feed.epoch(k)));
    r.loss = done.last.train.mean_loss();
    r.accuracy = 100 * done.last.held_out->accuracy();
  });
  return r;
}

void sweep(const plan& p) {
  std::ofstream csv;
  if (!p.csv.empty()) {
    csv.open(p.csv);
    if (!csv) throw error("cannot write " + p.csv);
    csv << "rule,scaling,epochs,ranks,seed,batch,accumulate,steps,peak_rate,loss,accuracy\n";
  }
  examples::with_fashion_mnist(p.data, [&](const auto& training, const auto& held) {
    with_rule(p.rule, [&](const auto& rule) {
      std::printf("ResNet-8, %s\n%s from batch %d, %s epochs of %zu samples, %d ranks\n\n",
                  rule.describe().c_str(), p.scaling.c_str(), p.reference, text(p.epochs).c_str(),
                  training.size(), p.ranks);
      std::printf("%6s %10s %6s %10s %8s %11s\n", "batch", "accumulate", "steps", "peak rate",
                  "loss", "held out");
      for (const int batch : p.batches) {
        const result r = train(p, batch, rule, training, held);
        std::printf("%6d %10d %6lld %10.4g %8.4f %9.2f %%\n", batch, r.accumulate,
                    static_cast<long long>(r.steps), r.peak, r.loss, r.accuracy);
        std::fflush(stdout);
        if (csv.is_open())
          csv << text(p.rule, ",", p.scaling, ",", p.epochs, ",", p.ranks, ",", p.seed, ",", batch,
                      ",", r.accumulate, ",", r.steps, ",", r.peak, ",", r.loss, ",", r.accuracy,
                      "\n")
              << std::flush;
      }
    });
  });
  if (!p.csv.empty() && !csv) throw error("cannot write " + p.csv);
}

std::vector<int> whole_numbers(const std::string& list) {
  std::vector<int> out;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string one = list.substr(begin, end - begin);
    if (one.empty() || one.size() > 7 || one.find_first_not_of("0123456789") != std::string::npos ||
        std::stoi(one) == 0)
      throw error("--batches takes whole numbers with commas between, not \"" + list + "\"");
    out.push_back(std::stoi(one));
    begin = end + 1;
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "large_batch: accuracy after the same epochs with ever larger batches");
    plan p;
    p.data = o.text("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                    "folder of the idx files; with the training files in it, all 60,000 are used");
    p.rule = o.text("rule", "lars", "sgd, lars or lamb");
    p.scaling = o.text("scaling", "legw",
                       "legw: rate by the root of the batch, warm-up epochs by the batch; linear: "
                       "rate by the batch, warm-up as it is");
    p.batches = whole_numbers(o.text("batches", "128,512,2048,8192", "one run each"));
    p.reference = o.whole("reference", 128, "the batch that rate and warm-up are said of");
    p.rate = o.number("rate", usual_rate(p.rule), "peak rate at the reference batch");
    p.warmup = o.number("warmup", p.scaling == "linear" ? 1 : 0.1,
                        "epochs of warm-up at the reference batch");
    p.epochs = o.number("epochs", 12, "passes over the training images, with every batch");
    p.ranks = o.whole("ranks", 4, "workers in this process");
    p.at_once = o.whole("at-once", 256, "samples that a worker holds at once; more accumulate");
    p.seed = static_cast<std::uint64_t>(o.whole("seed", 1, "of weights, order and augmentation"));
    p.csv = o.text("csv", "", "write one line a batch to this file");
    p.talks = o.flag("talk", "say how each epoch went");
    o.done();
    if (p.ranks == 0 || p.at_once == 0) throw error("--ranks and --at-once are at least 1");
    for (const int batch : p.batches) schedule(p, batch)(0);  // refused before the first run
    sweep(p);
  });
}
