// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An optimizer of your own: Signum (Bernstein et al. 2018), signSGD with momentum, which is not in
// the library. It trains a small network over a ring; wrapped in `local_steps` it would do Local
// SGD, unchanged. --check tests it by the laws of optimizers.
#include <cstdio>

#include <cordee/cordee.hpp>
#include <cordee/testing/optimizer_laws.hpp>

#include "options.hpp"

using namespace cordee;

namespace {

// The update of one number, on any device.
//   m <- beta m + (1 - beta) g
//   w <- w - lr (sign(m) + weight_decay w)
template <class Real>
struct signum_step {
  Real *w, *m;
  const Real* g;
  Real learning_rate, beta, decay;

  // The step for one segment of the table, by its kind; the index would select its norms.
  CORDEE_HOST_DEVICE signum_step for_segment(kind what, std::size_t) const {
    signum_step step = *this;
    if (what != kind::weight) step.decay = 0;  // not biases, not batch norm
    return step;
  }
  // `at` reads and writes planes at one index: a number, or a register of numbers.
  template <class At>
  constexpr void operator()(At at) const {
    using number = typename At::number;
    const number mean = beta * at(m) + (1 - beta) * at(g);
    at.put(m, mean);
    at.put(w, at(w) - learning_rate * (at.sign(mean) + decay * at(w)));
  }
};

struct signum {
  static constexpr agreement needs =
      agreement::exact;            // the mean of signs is not the sign of the mean
  static constexpr int slots = 1;  // one plane of state, m, initially zero

  double beta = 0.9, weight_decay = 0;

  // The mean of the ranks' gradients is in v.grads. Zero weight and zero gradient stay zero.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    const auto real = [](double x) { return static_cast<Real>(x); };
    segmented_for<Real>(
        s, v.segments,
        signum_step<Real>{v.weights.data, v.slots[0].data, v.grads.data, real(info.learning_rate),
                          real(beta), real(weight_decay)});
  }

  // Optional: the trainer's constructor calls check(), and the description of the run has a line.
  void check() const { expects(beta >= 0 && beta < 1, "signum: beta must be in [0, 1)"); }
  [[nodiscard]] std::string describe() const {
    return concat("signum, beta ", beta, ", weight decay ", weight_decay);
  }
};
static_assert(OptimizerOn<signum, float, cpu>);

using layers = sequential<convolution<16, 3, 2>, batch_norm<relu>, convolution<32, 3, 2>,
                          batch_norm<relu>, global_average_pool, linear<10>>;

void check(const signum& optimizer) {
  const std::string violation = optimizer_laws(optimizer);
  if (!violation.empty()) throw error(violation);
  std::printf("signum obeys the laws\n");
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "own_optimizer: an optimizer of your own (Signum) over a ring of ranks");
    const std::string at = o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                                    "folder of Fashion-MNIST's idx files (t10k-…)");
    const int ranks = o.positive("ranks", 4, "ranks in this process");
    const int global = o.positive("batch", 128, "samples of one update, over all ranks");
    const double epochs = o.number("epochs", 2, "passes over 9,000 images");
    const double learning_rate =
        o.number("learning-rate", 0.002, "peak learning rate; a step moves each weight by it");
    const double decay = o.number("decay", 0.1, "weight decay");
    const double beta = o.number("beta", 0.9, "share of m that a step keeps");
    const std::uint64_t seed = o.seed();
    const bool only_check = o.flag("check", "test the optimizer by its laws, train nothing");
    o.done();
    if (only_check) return check({.beta = beta, .weight_decay = decay});

    const idx images{at + "/t10k-images-idx3-ubyte", at + "/t10k-labels-idx1-ubyte"};
    const auto [training, held_out] = split(images, 0.1, 1);
    threads::launch(ranks, [&, &training = training, &held_out = held_out](threads comm) {
      network<layers, fp32, cpu, direct, extent{1, 28, 28}, 10> net;
      loader feed{training,
                  comm,
                  {.global_batch = global, .seed = seed},
                  {},
                  normalize::measured(training)};
      trainer run{net,
                  signum{.beta = beta, .weight_decay = decay},
                  cosine{.peak = learning_rate, .epochs = epochs},
                  ring{comm},
                  {.seed = seed}};
      if (comm.rank() == 0) std::printf("%s\n", describe(run, feed, epochs).c_str());
      const auto done = run.fit(feed, epochs, validation{held_out}, console{});
      if (comm.rank() == 0)
        std::printf("validation accuracy %s %% of %lld images\n",
                    decimal::fixed(100 * done.last.validation->accuracy(), 1).c_str(),
                    static_cast<long long>(done.last.validation->count));
    });
  });
}
