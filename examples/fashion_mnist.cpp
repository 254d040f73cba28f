// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// ResNet-20 on Fashion-MNIST with N ranks in one process: a large batch by LARS, warm-up and
// polynomial decay, gradients averaged over a ring while backward runs. scripts/demo runs it.
#include <cstdio>

#include <cordee/cordee.hpp>

#include "data.hpp"
#include "options.hpp"

using namespace cordee;

namespace {

struct plan {
  std::string data, csv, save;
  int ranks, batch;
  double epochs, warmup, learning_rate, trust_coefficient, smoothing;
  std::uint64_t seed;
  bool dry_run;
};

void train(const plan& p) {
  examples::with_fashion_mnist(p.data, [&](const auto& training, const auto& held_out) {
    const auto norm = normalize::measured(training);
    threads::launch(p.ranks, [&](threads comm) {
      // Residual blocks that begin as the identity help with hundreds of layers; twenty layers, on
      // two hundred steps, learn sooner with all blocks active from the start.
      resnet<20, fp32, cpu, resnet_options{.image = {1, 28, 28}, .zero_gamma = false}> net;
      net.loss.label_smoothing = p.smoothing;
      loader feed{training,
                  comm,
                  {.global_batch = p.batch, .seed = p.seed},
                  pad_crop_flip{.pad = 2, .flip = true},
                  norm};
      trainer run{
          net,
          lars{.momentum = 0.9, .weight_decay = 5e-4, .trust_coefficient = p.trust_coefficient},
          warmup{p.warmup, polynomial{.peak = p.learning_rate, .epochs = p.epochs, .power = 2}},
          ring{comm},
          {.seed = p.seed}};

      if (comm.rank() == 0) std::printf("%s\n", describe(run, feed, p.epochs).c_str());
      if (p.dry_run) return;

      const auto done = p.csv.empty()
                            ? run.fit(feed, p.epochs, validation{held_out}, console{})
                            : run.fit(feed, p.epochs, validation{held_out}, console{}, csv{p.csv});
      run.save(p.save);
      if (comm.rank() == 0)
        std::printf("validation accuracy %s %% of %lld images; weights in %s\n",
                    decimal::fixed(100 * done.last.validation->accuracy(), 2).c_str(),
                    static_cast<long long>(done.last.validation->count), p.save.c_str());
    });
  });
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "fashion_mnist: ResNet-20 on Fashion-MNIST with ranks in one process");
    plan p;
    p.data =
        o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                 "folder of the idx files; with the training files in it, all 60,000 are used");
    p.ranks = o.positive("ranks", 4, "ranks, one thread (or more, where cores are left) each");
    p.batch = o.positive("batch", 512, "samples of one update, over all ranks");
    p.epochs = o.number("epochs", 12, "epochs, passes over the training images");
    p.warmup = o.number("warmup", 1, "epochs of warm-up from zero");
    p.learning_rate = o.number("learning-rate", 1, "peak learning rate");
    p.trust_coefficient = o.number("trust", 0.01, "LARS's trust coefficient");
    p.smoothing = o.number("smoothing", 0, "label smoothing");
    p.seed = o.seed();
    p.csv = o.string("csv", "", "write one line a step to this file");
    p.save = o.string("save", "resnet20.safetensors", "write the weights to this file");
    p.dry_run = o.flag("describe", "print the description of the run and train nothing");
    o.done();
    train(p);
  });
}
