// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A learning-rate schedule of your own: warm-up, stable, decay (Hu et al. 2024), which the library
// does not ship. It trains a small network over a ring; --check tests it by the laws of schedules.
#include <algorithm>
#include <cstdio>

#include <cordee/cordee.hpp>
#include <cordee/testing/schedule_laws.hpp>

#include "options.hpp"

using namespace cordee;

namespace {

// A schedule maps the epochs of data seen to a learning rate:
//   lr(e) = peak min(e / W, 1, (E - e) / D)     W, D: epochs of warm-up and of decay, E: of the run
struct warmup_stable_decay {
  double peak = 0.1, epochs = 1, warmup = 0, decay = 0;

  double operator()(double epoch) const {
    expects(warmup >= 0 && decay >= 0 && warmup + decay <= epochs,
            "warmup_stable_decay: .warmup and .decay must be 0 or more, together at most .epochs");
    const double rise = epoch < warmup ? epoch / warmup : 1,
                 fall = epochs - epoch < decay ? (epochs - epoch) / decay : 1;
    return peak * std::max(0.0, std::min(rise, fall));
  }

  // Optional: from where the learning rate is constant, and a line for the run's description.
  [[nodiscard]] double end_epoch() const { return epochs; }
  [[nodiscard]] std::string describe() const {
    return concat("warm-up over ", warmup, " epochs to ", peak, ", decay over the last ", decay,
                  " of ", epochs);
  }
};
static_assert(Schedule<warmup_stable_decay>);

using layers = sequential<convolution<16, 3, 2>, batch_norm<relu>, convolution<32, 3, 2>,
                          batch_norm<relu>, global_average_pool, linear<10>>;

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "own_schedule: a learning-rate schedule of your own");
    const std::string at = o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                                    "folder of Fashion-MNIST's idx files (t10k-…)");
    const int ranks = o.positive("ranks", 2, "ranks in this process");
    const int global = o.positive("batch", 128, "samples of one update, over all ranks");
    const std::uint64_t seed = o.seed();
    const double epochs = o.number("epochs", 2, "passes over 9,000 images");
    warmup_stable_decay schedule{.epochs = epochs};
    schedule.peak = o.number("learning-rate", 0.1, "peak learning rate");
    schedule.warmup = o.number("warmup", 0.1 * epochs, "epochs of warm-up");
    schedule.decay = o.number("decay", 0.5 * epochs, "epochs of decay");
    const bool only_check = o.flag("check", "test the schedule by its laws, train nothing");
    o.done();

    const std::string violation = schedule_laws(schedule, epochs);
    if (!violation.empty()) throw error(violation);
    if (only_check) return void(std::printf("%s: obeys the laws\n", schedule.describe().c_str()));

    const idx images{at + "/t10k-images-idx3-ubyte", at + "/t10k-labels-idx1-ubyte"};
    const auto [training, held_out] = split(images, 0.1, 1);
    threads::launch(ranks, [&, &training = training, &held_out = held_out](threads comm) {
      network<layers, fp32, cpu, direct, extent{1, 28, 28}, 10> net;
      loader feed{training,
                  comm,
                  {.global_batch = global, .seed = seed},
                  {},
                  normalize::measured(training)};
      trainer run{net, sgd{.momentum = 0.9}, schedule, ring{comm}, {.seed = seed}};
      if (comm.rank() == 0) std::printf("%s\n", describe(run, feed, epochs).c_str());
      const auto done = run.fit(feed, epochs, validation{held_out}, console{});
      if (comm.rank() == 0)
        std::printf("validation accuracy %s %% of %lld images\n",
                    decimal::fixed(100 * done.last.validation->accuracy(), 1).c_str(),
                    static_cast<long long>(done.last.validation->count));
    });
  });
}
