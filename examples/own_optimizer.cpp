// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An optimizer of your own: Lion (Chen et al. 2023), which the library does not ship. It trains a
// small network over a ring; wrapped in `local_steps` it would do Local SGD, unchanged.
#include <cstdio>

#include <cordee/cordee.hpp>

#include "options.hpp"

using namespace cordee;

namespace {

// The update of one number, on any device.
//   w <- w - lr (sign(beta1 m + (1 - beta1) g) + weight_decay w)
//   m <- beta2 m + (1 - beta2) g
template <class Real>
struct lion_step {
  Real *w, *m;
  const Real* g;
  Real learning_rate, beta1, beta2, decay;

  // The step for one segment of the table, by its kind; the index would select its norms.
  CORDEE_HOST_DEVICE lion_step for_segment(kind what, std::size_t) const {
    lion_step step = *this;
    if (what != kind::weight) step.decay = 0;  // not biases, not batch norm
    return step;
  }
  // `at` reads and writes planes at one index: a number, or a register of numbers.
  template <class At>
  constexpr void operator()(At at) const {
    using number = typename At::number;
    const number zero{}, plus = zero + Real{1}, c = beta1 * at(m) + (1 - beta1) * at(g);
    const number sign = c > zero ? plus : c < zero ? -plus : zero;
    at.put(w, at(w) - learning_rate * (sign + decay * at(w)));
    at.put(m, beta2 * at(m) + (1 - beta2) * at(g));
  }
};

struct lion {
  static constexpr agreement needs =
      agreement::exact;            // the mean of signs is not the sign of the mean
  static constexpr int slots = 1;  // one plane of state, m, initially zero

  double beta1 = 0.9, beta2 = 0.99, weight_decay = 0;

  // The mean of the ranks' gradients is in v.grads. Zero weight and zero gradient stay zero.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    const auto real = [](double x) { return static_cast<Real>(x); };
    segmented_for<Real>(
        s, v.segments,
        lion_step<Real>{v.weights.data, v.slots[0].data, v.grads.data, real(info.learning_rate),
                        real(beta1), real(beta2), real(weight_decay)});
  }

  // Optional: the trainer's constructor calls check(), and the description of the run has a line.
  void check() const {
    expects(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1,
            "lion: beta1 and beta2 must be in [0, 1)");
  }
  [[nodiscard]] std::string describe() const {
    return concat("lion, beta1 ", beta1, ", beta2 ", beta2, ", weight decay ", weight_decay);
  }
};
static_assert(OptimizerOn<lion, float, cpu>);

using layers = sequential<convolution<16, 3, 2>, batch_norm<relu>, convolution<32, 3, 2>,
                          batch_norm<relu>, global_average_pool, linear<10>>;

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "own_optimizer: an optimizer of your own (Lion) over a ring of ranks");
    const std::string at = o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                                    "folder of Fashion-MNIST's idx files (t10k-…)");
    const int ranks = o.positive("ranks", 4, "ranks in this process");
    const int global = o.positive("batch", 128, "samples of one update, over all ranks");
    const double epochs = o.number("epochs", 2, "passes over 9,000 images");
    const double learning_rate =
        o.number("learning-rate", 0.002, "peak learning rate; a step moves each weight by it");
    const double decay = o.number("decay", 0.1, "weight decay");
    const double beta1 = o.number("beta1", 0.9, "share of m in the sign");
    const std::uint64_t seed = o.seed();
    o.done();

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
                  lion{.beta1 = beta1, .weight_decay = decay},
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
