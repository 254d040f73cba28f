// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How far the batch can grow: the same ResNet-8 for the same number of epochs, with batches from
// 128 to 8192, by sgd, lars or lamb. Nothing is tuned between them: learning rates and warm-up
// follow from those of batch 128 by LEGW or by linear scaling. A batch that exceeds what the
// ranks process at once is accumulated.
#include <cstdio>
#include <fstream>
#include <functional>
#include <locale>
#include <vector>

#include <cordee/cordee.hpp>

#include "data.hpp"
#include "options.hpp"

using namespace cordee;

namespace {

struct plan {
  std::string data, optimizer, scaling, csv;
  std::vector<int> batches;
  int ranks, at_once, reference;
  double epochs, warmup, learning_rate;
  std::uint64_t seed;
  bool verbose;
};

// Calls f(optimizer): each optimizer is a type of its own, so the trainer is compiled for each.
template <class F>
void with_optimizer(const std::string& name, const F& f) {
  if (name == "sgd") return f(sgd{.momentum = 0.9, .weight_decay = 5e-4});
  if (name == "lars")
    return f(lars{.momentum = 0.9, .weight_decay = 5e-4, .trust_coefficient = 0.01});
  if (name == "lamb") return f(lamb{.weight_decay = 0.01});
  throw error("--optimizer takes sgd, lars or lamb, not \"" + name + "\"");
}

// The default peak learning rate at batch 128.
double default_learning_rate(const std::string& optimizer) {
  return optimizer == "sgd" ? 0.05 : optimizer == "lars" ? 0.5 : 0.005;
}

// For k times the reference batch. LEGW: learning rate x sqrt(k), warm-up epochs x k. Linear (Goyal
// et al. 2017): learning rate x k, same warm-up.
std::function<double(double)> schedule(const plan& p, int batch) {
  const polynomial decay{.peak = p.learning_rate, .epochs = p.epochs, .power = 2};
  if (p.scaling == "legw") return legw{p.warmup, decay, p.reference, batch};
  if (p.scaling == "linear") return warmup{p.warmup, linear_scaled{decay, p.reference, batch}};
  throw error("--scaling takes legw or linear, not \"" + p.scaling + "\"");
}

struct result {
  std::int64_t steps = 0;
  int accumulate = 1;
  double peak = 0, loss = 0, accuracy = 0;
};

template <class Optimizer, class Training, class HeldOut>
result train(const plan& p, int batch, const Optimizer& optimizer, const Training& training,
             const HeldOut& held_out) {
  result r;
  const int per_step = p.ranks * p.at_once;
  r.accumulate = (batch + per_step - 1) / per_step;
  threads::launch(p.ranks, [&](threads comm) {
    resnet<8, fp32, cpu, resnet_options{.image = {1, 28, 28}, .zero_gamma = false}> net;
    loader feed{training,
                comm,
                {.global_batch = batch, .accumulate = r.accumulate, .seed = p.seed},
                pad_crop_flip{.pad = 2, .flip = true},
                normalize::measured(training)};
    trainer run{net, optimizer, schedule(p, batch), ring{comm}, {.seed = p.seed}};
    const auto done = p.verbose ? run.fit(feed, p.epochs, validation{held_out}, console{})
                                : run.fit(feed, p.epochs, validation{held_out});
    if (comm.rank() != 0) return;
    r.steps = done.steps;
    for (std::int64_t k = 0; k < done.steps; ++k)
      r.peak = std::max(r.peak, run.schedule()(feed.epoch(k)));
    r.loss = done.last.train.mean_loss();
    r.accuracy = 100 * done.last.validation->accuracy();
  });
  return r;
}

void sweep(const plan& p) {
  std::ofstream csv;
  csv.imbue(std::locale::classic());
  if (!p.csv.empty()) {
    csv.open(p.csv);
    if (!csv) throw error("cannot write " + p.csv);
    csv << "optimizer,scaling,epochs,ranks,seed,batch,accumulate,steps,peak_lr,loss,accuracy\n";
  }
  examples::with_fashion_mnist(p.data, [&](const auto& training, const auto& held_out) {
    with_optimizer(p.optimizer, [&](const auto& optimizer) {
      std::printf("ResNet-8, %s\n%s from batch %d, %s epochs of %zu samples, %d ranks\n\n",
                  optimizer.describe().c_str(), p.scaling.c_str(), p.reference,
                  concat(p.epochs).c_str(), training.size(), p.ranks);
      std::printf("%6s %10s %6s %10s %8s %11s\n", "batch", "accumulate", "steps", "peak lr", "loss",
                  "validation");
      for (const int batch : p.batches) {
        const result r = train(p, batch, optimizer, training, held_out);
        std::printf("%6d %10d %6lld %10s %8s %9s %%\n", batch, r.accumulate,
                    static_cast<long long>(r.steps), decimal::general(r.peak, 4).c_str(),
                    decimal::fixed(r.loss, 4).c_str(), decimal::fixed(r.accuracy, 2).c_str());
        std::fflush(stdout);
        if (csv.is_open())
          csv << concat(p.optimizer, ",", p.scaling, ",", p.epochs, ",", p.ranks, ",", p.seed, ",",
                        batch, ",", r.accumulate, ",", r.steps, ",", r.peak, ",", r.loss, ",",
                        r.accuracy, "\n")
              << std::flush;
      }
    });
  });
  if (!p.csv.empty() && !csv) throw error("cannot write " + p.csv);
}

std::vector<int> parse_integers(const std::string& list) {
  std::vector<int> out;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string item = list.substr(begin, end - begin);
    if (item.empty() || item.size() > 7 ||
        item.find_first_not_of("0123456789") != std::string::npos || std::stoi(item) == 0)
      throw error("--batches takes positive integers separated by commas, not \"" + list + "\"");
    out.push_back(std::stoi(item));
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
    p.data =
        o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                 "folder of the idx files; with the training files in it, all 60,000 are used");
    p.optimizer = o.string("optimizer", "lars", "sgd, lars or lamb");
    p.scaling =
        o.string("scaling", "legw",
                 "legw: learning rate by the root of the batch, warm-up epochs by the batch; "
                 "linear: learning rate by the batch, same warm-up");
    p.batches = parse_integers(o.string("batches", "128,512,2048,8192", "one run each"));
    p.reference =
        o.positive("reference", 128, "the batch that --learning-rate and --warmup refer to");
    p.learning_rate = o.number("learning-rate", default_learning_rate(p.optimizer),
                               "peak learning rate at the reference batch");
    p.warmup = o.number("warmup", p.scaling == "linear" ? 1 : 0.1,
                        "epochs of warm-up at the reference batch");
    p.epochs = o.number("epochs", 12, "epochs, passes over the training images, with every batch");
    p.ranks = o.positive("ranks", 4, "ranks in this process");
    p.at_once =
        o.positive("at-once", 256, "samples that a rank processes at once; more are accumulated");
    p.seed = o.seed();
    p.csv = o.string("csv", "", "write one line per batch to this file");
    p.verbose = o.flag("verbose", "print a line per epoch");
    o.done();
    if (p.ranks == 0 || p.at_once == 0) throw error("--ranks and --at-once must be at least 1");
    for (const int batch : p.batches) schedule(p, batch)(0);  // throws before the first run
    sweep(p);
  });
}
