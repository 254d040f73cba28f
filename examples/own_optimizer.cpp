// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An optimizer of your own: Lion (Chen et al. 2023), which the library does not ship. It trains a
// small network over a ring; wrapped in `local` the same rule would do Local SGD, unchanged.
#include <cstdio>

#include <cordee/cordee.hpp>

#include "options.hpp"

using namespace cordee;

namespace {

// What happens to a number, on whatever device it lies.
//   w <- w - rate (sign(beta1 m + (1 - beta1) g) + weight_decay w)
//   m <- beta2 m + (1 - beta2) g
template <class Real>
struct lion_step {
  Real *w, *m;
  const Real* g;
  Real rate, beta1, beta2, decay;

  // As it is in a segment: here by its kind; its place in the table would find norms, say.
  CORDEE_HOST_DEVICE lion_step of(kind what, std::size_t) const {
    lion_step own = *this;
    if (what != kind::weight) own.decay = 0;  // not biases, not batch norm
    return own;
  }
  // `at` reads and puts what a plane holds at one place: a number, or a register of them.
  template <class At>
  constexpr void operator()(At at) const {
    using number = typename At::number;
    const number zero{}, one = zero + Real{1}, c = beta1 * at(m) + (1 - beta1) * at(g);
    const number sign = c > zero ? one : c < zero ? -one : zero;
    at.put(w, at(w) - rate * (sign + decay * at(w)));
    at.put(m, beta2 * at(m) + (1 - beta2) * at(g));
  }
};

struct lion {
  static constexpr agreement needs = agreement::exact;  // signs of unlike gradients do not average
  static constexpr bool eager = true;  // says the gradient as it is: it may leave during backward
  static constexpr int slots = 1;      // one plane of state, m, which begins as zero
  static constexpr when norms = when::never;

  double beta1 = 0.9, beta2 = 0.99, weight_decay = 0;

  // What the ranks tell each other: a range of the view.
  template <class Real, class D>
  span_on<Real, D> propose(const view<Real, D, slots>& v, const moment&, typename D::stream) const {
    return v.grads;
  }
  // The mean stands where the gradient stood. Zero weight and zero gradient stay zero.
  template <class Real, class D>
  void accept(const view<Real, D, slots>& v, const moment& now, typename D::stream s) const {
    const auto real = [](double x) { return static_cast<Real>(x); };
    segmented_for<Real>(
        s, v.segments,
        lion_step<Real>{v.weights.data, v.slots[0].data, v.grads.data, real(now.rate), real(beta1),
                        real(beta2), real(weight_decay)});
  }

  // Both may be left out: what makes no sense is refused when the trainer is made, and the run
  // can say what it does.
  void check() const {
    expects(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1, "lion: a beta is not in [0, 1)");
  }
  [[nodiscard]] std::string describe() const {
    return text("lion, beta1 ", beta1, ", beta2 ", beta2, ", weight decay ", weight_decay);
  }
};
static_assert(OptimizerOn<lion, float, cpu>);

using layers = sequential<convolution<16, 3, 2>, batch_norm<relu>, convolution<32, 3, 2>,
                          batch_norm<relu>, global_average_pool, linear<10>>;

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "own_optimizer: a rule of your own (Lion) over a ring of workers");
    const std::string at = o.text("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                                  "folder of Fashion-MNIST's idx files (t10k-…)");
    const int ranks = o.whole("ranks", 4, "workers in this process");
    const int global = o.whole("batch", 128, "samples of one update, over all workers");
    const double epochs = o.number("epochs", 2, "passes over 9,000 images");
    const double rate = o.number("rate", 0.002, "peak rate; a step moves each weight by the rate");
    const double decay = o.number("decay", 0.1, "weight decay");
    const double beta1 = o.number("beta1", 0.9, "how much of m counts in the sign");
    o.done();

    const idx images{at + "/t10k-images-idx3-ubyte", at + "/t10k-labels-idx1-ubyte"};
    const auto [training, held] = split(images, 0.1, 1);
    threads::launch(ranks, [&, &training = training, &held = held](threads link) {
      network<layers, fp32, cpu, direct, extent{1, 28, 28}, 10> net;
      loader feed{
          training, link, {.global_batch = global, .seed = 1}, {}, normalise::measured(training)};
      trainer run{net, lion{.beta1 = beta1, .weight_decay = decay},
                  cosine{.peak = rate, .epochs = epochs}, ring{link}};
      if (link.rank() == 0) std::printf("%s\n", describe(run, feed, epochs).c_str());
      const auto done = run.fit(feed, epochs, held_out{held}, console{});
      if (link.rank() == 0)
        std::printf("held-out accuracy %.1f %% of %lld images\n",
                    100 * done.last.held_out->accuracy(),
                    static_cast<long long>(done.last.held_out->count));
    });
  });
}
