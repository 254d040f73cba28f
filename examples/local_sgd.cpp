// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The network of the demo by Local and post-local SGD (Lin et al. 2018): the ranks average their
// weights every so many steps instead of their gradients at each, from the start or only from the
// epoch at which the rate falls; beside the run of one process on the same global batch.
#include <cstdio>
#include <string>

#include <cordee/cordee.hpp>

#include "data.hpp"
#include "options.hpp"

using namespace cordee;

namespace {

struct plan {
  std::string data;
  int ranks, batch, every;
  double epochs, warmup, rate, from;
  std::uint64_t seed;
};

template <class Training, class Held>
void train(const plan& p, const char* name, int ranks, int every, double from,
           const Training& training, const Held& held) {
  threads::launch(ranks, [&](threads link) {
    resnet<20, fp32, cpu, shape{.image = {1, 28, 28}, .zero_gamma = false}> net;
    const auto norm = normalise::measured(training);
    loader feed{training,
                link,
                {.global_batch = p.batch, .seed = p.seed},
                augment{.pad = 2, .flip = true},
                norm};
    trainer run{net,
                local{sgd{.momentum = 0.9, .weight_decay = 5e-4, .nesterov = true}, every, from},
                warmup{p.warmup, multistep{.rate = p.rate, .milestones = {p.from}}},
                ring{link},
                {.seed = p.seed}};
    run.fit(feed, p.epochs);
    const score found = run.evaluate(held, norm);
    std::int64_t met = 0;
    for (std::int64_t k = 0; k < feed.steps(p.epochs); ++k)
      met += feed.epoch(k) < from || (k + 1) % every == 0;
    if (link.rank() != 0) return;
    std::printf("%-44s %6.2f %%   %lld of %lld steps end with a meeting\n", name,
                100 * found.accuracy(), static_cast<long long>(ranks > 1 ? met : 0),
                static_cast<long long>(feed.steps(p.epochs)));
    std::fflush(stdout);
  });
}

void compare(const plan& p) {
  examples::with_fashion_mnist(p.data, [&](const auto& training, const auto& held) {
    const auto tell = [&](const std::string& name, int ranks, int every, double from) {
      train(p, name.c_str(), ranks, every, from, training, held);
    };
    std::printf("%d ranks, batch %d, %g epochs, the rate falls at epoch %g: held-out accuracy\n",
                p.ranks, p.batch, p.epochs, p.from);
    tell("one process", 1, 1, 0);
    tell("meet at each step", p.ranks, 1, 0);
    tell(text("local: every ", p.every, " steps"), p.ranks, p.every, 0);
    tell(text("post-local: every ", p.every, " steps from epoch ", p.from), p.ranks, p.every,
         p.from);
  });
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "local_sgd: ResNet-20 on Fashion-MNIST by Local and post-local SGD");
    plan p;
    p.data = o.text("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                    "folder of the idx files; with the training files in it, all 60,000 are used");
    p.ranks = o.whole("ranks", 4, "workers, one thread (or more, where cores are left) each");
    p.batch = o.whole("batch", 256, "samples of one step, over all workers");
    p.every = o.whole("every", 8, "steps between two meetings");
    p.epochs = o.number("epochs", 8, "passes over the training images");
    p.warmup = o.number("warmup", 1, "epochs of warm-up from zero");
    p.rate = o.number("rate", 0.1, "rate, a tenth of it from --from on");
    p.from = o.number("from", 5, "the epoch from which post-local ranks step alone");
    p.seed = static_cast<std::uint64_t>(o.whole("seed", 1, "of weights, order and augmentation"));
    o.done();
    if (p.every < 1) throw error("--every is 1 or more");
    compare(p);
  });
}
