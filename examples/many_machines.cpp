// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The network of the demo over processes, on as many machines as mpirun or srun is given; then the
// same run as threads of one process, which ends with the same weights.
//
//   examples/launch/mpirun.sh 4 build/release/examples/many_machines --epochs 2
//   sbatch examples/launch/slurm.sbatch build/release/examples/many_machines
#include <algorithm>
#include <cstdio>
#include <vector>

#include <cordee/comm/mpi.hpp>
#include <cordee/cordee.hpp>

#include "data.hpp"
#include "options.hpp"

using namespace cordee;

namespace {

struct plan {
  std::string data;
  int batch, deadline;
  double epochs, warmup, rate;
  std::uint64_t seed;
  bool alone;
};

struct result {
  double accuracy = 0;
  std::vector<float> weights;
};

template <class Link, class Training, class Held, class... Listeners>
result train(const plan& p, const Link& link, const Training& training, const Held& held,
             Listeners&&... listeners) {
  resnet<20, fp32, cpu, shape{.image = {1, 28, 28}, .zero_gamma = false}> net;
  loader feed{training,
              link,
              {.global_batch = p.batch, .seed = p.seed},
              augment{.pad = 2, .flip = true},
              normalise::measured(training)};
  trainer run{net,
              lars{.momentum = 0.9, .weight_decay = 5e-4, .trust = 0.01},
              warmup{p.warmup, polynomial{.peak = p.rate, .epochs = p.epochs, .power = 2}},
              ring{link},
              {.seed = p.seed}};
  const auto done = run.fit(feed, p.epochs, held_out{held}, listeners...);
  return {100 * done.last.held_out->accuracy(), {run.weights().begin(), run.weights().end()}};
}

void compare(const plan& p) {
  examples::with_fashion_mnist(p.data, [&](const auto& training, const auto& held) {
    mpi::launch(
        [&](mpi link) {
          const result here = train(p, link, training, held, console{});
          if (link.rank() != 0) return;
          std::printf("%d processes: held-out accuracy %.2f %%\n", link.size(), here.accuracy);
          std::fflush(stdout);
          if (p.alone) return;
          result there;
          threads::launch(link.size(), [&](threads beside) {
            const result mine = train(p, beside, training, held);
            if (beside.rank() == 0) there = mine;
          });
          std::printf(
              "one process:  held-out accuracy %.2f %%, the weights %s\n", there.accuracy,
              std::ranges::equal(here.weights, there.weights) ? "are the same bits" : "differ");
        },
        {.deadline = std::chrono::seconds(p.deadline)});
  });
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(
        argc, argv,
        "many_machines: ResNet-20 on Fashion-MNIST with workers as processes, which "
        "mpirun or srun starts");
    plan p;
    p.data = o.text("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                    "folder of the idx files; with the training files in it, all 60,000 are used");
    p.batch = o.whole("batch", 512, "samples of one update, over all workers");
    p.epochs = o.number("epochs", 12, "passes over the training images");
    p.warmup = o.number("warmup", 1, "epochs of warm-up from zero");
    p.rate = o.number("rate", 1, "peak rate");
    p.seed = static_cast<std::uint64_t>(o.whole("seed", 1, "of weights, order and augmentation"));
    p.deadline = o.whole("deadline", 120, "seconds that a rank waits for another one at most");
    p.alone = o.flag("alone", "leave out the run in one process");
    o.done();
    compare(p);
  });
}
