// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// ResNet-20 on Fashion-MNIST with N workers in one process: large batch, LARS, warm-up and
// polynomial decay, gradients averaged over a ring while backward runs. The main job of
// scripts/demo.
#include <cstdio>

#include <cordee/cordee.hpp>

#include "data.hpp"
#include "options.hpp"

using namespace cordee;

namespace {

struct plan {
  std::string data, csv, save;
  int ranks, batch;
  double epochs, warmup, rate, trust, smoothing;
  std::uint64_t seed;
  bool dry;
};

void train(const plan& p) {
  examples::with_fashion_mnist(p.data, [&](const auto& training, const auto& held) {
    const auto norm = normalise::measured(training);
    threads::launch(p.ranks, [&](threads link) {
      // Blocks that begin as the identity help hundreds of layers; twenty, on two hundred steps,
      // learn sooner when all of them take part from the start.
      resnet<20, fp32, cpu, shape{.image = {1, 28, 28}, .zero_gamma = false}> net;
      net.label_smoothing = p.smoothing;
      loader feed{training,
                  link,
                  {.global_batch = p.batch, .seed = p.seed},
                  augment{.pad = 2, .flip = true},
                  norm};
      trainer run{net,
                  lars{.momentum = 0.9, .weight_decay = 5e-4, .trust = p.trust},
                  warmup{p.warmup, polynomial{.peak = p.rate, .epochs = p.epochs, .power = 2}},
                  ring{link},
                  {.seed = p.seed}};

      if (link.rank() == 0) std::printf("%s\n", describe(run, feed, p.epochs).c_str());
      if (p.dry) return;

      const auto done = p.csv.empty()
                            ? run.fit(feed, p.epochs, held_out{held}, console{})
                            : run.fit(feed, p.epochs, held_out{held}, console{}, csv{p.csv});
      run.save(p.save);
      if (link.rank() == 0)
        std::printf("held-out accuracy %.2f %% of %lld images; weights in %s\n",
                    100 * done.last.held_out->accuracy(),
                    static_cast<long long>(done.last.held_out->count), p.save.c_str());
    });
  });
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "fashion_mnist: ResNet-20 on Fashion-MNIST with workers in one process");
    plan p;
    p.data = o.text("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                    "folder of the idx files; with the training files in it, all 60,000 are used");
    p.ranks = o.whole("ranks", 4, "workers, one thread (or more, where cores are left) each");
    p.batch = o.whole("batch", 512, "samples of one update, over all workers");
    p.epochs = o.number("epochs", 12, "passes over the training images");
    p.warmup = o.number("warmup", 1, "epochs of warm-up from zero");
    p.rate = o.number("rate", 1, "peak rate");
    p.trust = o.number("trust", 0.01, "LARS's trust coefficient");
    p.smoothing = o.number("smoothing", 0, "label smoothing");
    p.seed = static_cast<std::uint64_t>(o.whole("seed", 1, "of weights, order and augmentation"));
    p.csv = o.text("csv", "", "write one line a step to this file");
    p.save = o.text("save", "resnet20.safetensors", "write the weights to this file");
    p.dry = o.flag("describe", "say what would happen and train nothing");
    o.done();
    train(p);
  });
}
