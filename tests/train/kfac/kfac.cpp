// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/comm/reducers/tree.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/testing/optimizer_laws.hpp>
#include <cordee/train/kfac/kfac.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

// The golden vector of docs/mathematics_network.md, 16: samples a = (1, 2, 1) and (0, 1, 1), output
// gradients (0.5, -0.5) and (-0.25, 0.25). With the weights below z is 1 of the first and 0 of the
// second sample.
struct golden_loss {
  struct sample_loss {
    double value = 0;
    [[nodiscard]] double gradient(double z, double y) const {
      return (z > 0.5 ? 0.5 : 0.25) * (y == 1 ? 1 : -1);
    }
  };
  template <class Sample>
  sample_loss operator()(const Sample&) const {
    return {};
  }
  bool operator==(const golden_loss&) const = default;
};
constexpr extent pair{2, 1, 1};
using one_linear = network<linear<2>, fp64, cpu, reference, pair, 2, golden_loss>;

/// The change of (weights, biases) by a step at learning rate 1: rank r has sample r, those after
/// the second none, a single rank both.
std::array<double, 6> golden_step(threads comm, double damping) {
  static constexpr std::array<std::uint8_t, 4> x{1, 2, 0, 1};
  static constexpr std::array<std::int32_t, 2> labels{0, 1};
  one_linear model;
  trainer run{model, kfac{sgd{.momentum = 0}, damping}, constant{.learning_rate = 1}, ring{comm}};
  const std::array<double, 6> before{1, 0, 1, 0, 0, 0};
  const auto at = [&](std::size_t i) -> double& {
    return i < 4 ? run.weights("fc.weight")[i] : run.weights("fc.bias")[i - 4];
  };
  for (std::size_t i = 0; i < 6; ++i) at(i) = before[i];
  run.adopt_weights();
  const int count = comm.size() == 1 ? 2 : comm.rank() < 2 ? 1 : 0;
  const auto first = static_cast<std::size_t>(comm.size() > 1 && comm.rank() == 1 ? 1 : 0);
  const auto n = static_cast<std::size_t>(count);
  const batch<cpu> b{.pixels = {x.data() + 2 * first, 2 * n},
                     .labels = {labels.data() + first, n},
                     .count = count,
                     .global_samples = 2,
                     .ranks = comm.size(),
                     .normalization = {.mean = {}, .scale = {255, 255}}};
  run.step(std::span(&b, 1), 0);
  std::array<double, 6> change{};
  for (std::size_t i = 0; i < 6; ++i) change[i] = before[i] - at(i);
  return change;
}

// A network that keeps its layers' samples to itself.
struct silent : one_linear {
  template <class Ready>
  void backward(const packed_parameters& packed, span_on<double, cpu> gradients, write_mode mode,
                Ready&& ready, cpu::stream s) {
    one_linear::backward(
        packed, gradients, mode, [&](std::size_t k) { ready(k); }, s);
  }
};

constexpr extent image{2, 6, 6};
using small_resnet =
    resnet<8, fp64, cpu, resnet_options{.image = image, .classes = 4, .zero_gamma = false}>;

struct path {
  std::vector<double> losses, weights;  // weights without running statistics
};
// Six updates of 24 samples.
template <class Make>
path train(int ranks, const Make& make, int refresh = 1, int accumulate = 1) {
  static const synthetic data{.extent = image, .classes = 4, .samples = 96, .seed = 3};
  struct recorder {
    std::vector<double>* losses;
    void step(const step_record& r) { losses->push_back(r.train.mean_loss()); }
  };
  path result;
  on_ranks(ranks, [&](threads comm) {
    small_resnet model;
    loader feed{data, comm, {.global_batch = 24, .accumulate = accumulate, .seed = 5}};
    trainer run{model,
                kfac{velocity_sgd{.momentum = 0.9}, 0.03, 1, refresh},
                constant{.learning_rate = 0.01},
                make(comm),
                {.bucket_bytes = 1 << 14, .batch_norm_over = accumulate > 1 ? 1 : 0}};
    run.fit(feed, 1.5, recorder{&result.losses});
    if (comm.rank() == 0)
      result.weights.assign(
          run.weights().begin(),
          run.weights().begin() +
              static_cast<std::ptrdiff_t>(run.weights().size - run.statistics().size));
    return 0;
  });
  return result;
}
constexpr auto over_ring = [](threads comm) { return ring{comm}; };

double distance(const path& x, const path& y) {
  REQUIRE(x.losses.size() == 6);
  REQUIRE(y.losses.size() == 6);
  double largest = 0;
  for (std::size_t k = 0; k < x.losses.size(); ++k)
    largest = std::max(largest, std::abs(x.losses[k] - y.losses[k]));
  for (std::size_t k = 0; k < x.weights.size(); ++k)
    largest = std::max(largest, std::abs(x.weights[k] - y.weights[k]));
  return largest;
}

}  // namespace

TEST_CASE("kfac: the golden vector of a linear layer, over 1, 2, 3 and 4 ranks, to 1e-10") {
  constexpr std::array expected{0.500667219905,  0.279398605012,  -0.500667219905,
                                -0.279398605012, -0.221268614893, 0.221268614893};
  for (const int ranks : {1, 2, 3, 4})
    for (const auto& change : on_ranks(ranks, [](threads comm) { return golden_step(comm, 0.03); }))
      for (std::size_t i = 0; i < 6; ++i) CHECK(close(change[i], expected[i], 1e-10));
}

TEST_CASE("kfac: with large damping the direction times the damping is the gradient") {
  constexpr std::array gradient{0.25, 0.375, -0.25, -0.375, 0.125, -0.125};
  // tr A = 4, tr G = 5/16, pi = 2.92: the factors are below 4 / (pi 1e4) + pi 5/16 / 1e4 of the
  // damping.
  constexpr double damping = 1e8;
  for (const auto& change : on_ranks(2, [](threads comm) { return golden_step(comm, damping); }))
    for (std::size_t i = 0; i < 6; ++i) CHECK(close(change[i] * damping, gradient[i], 2.4e-4));
}

TEST_CASE("kfac: ranks with batch norm over all of them are one rank with the whole batch") {
  const path alone = train(1, over_ring);
  CHECK(alone.losses[5] < 0.9 * alone.losses[0]);  // it learns
  for (const int ranks : {3, 4}) {
    CAPTURE(ranks);
    CHECK(distance(train(ranks, over_ring), alone) < 1e-9);
    CHECK(distance(train(ranks, [](threads comm) { return tree{comm}; }), alone) < 1e-9);
  }
}

TEST_CASE("kfac: factors of micro-batches add up, and stale ones are kept for so many steps") {
  const path two = train(2, over_ring, 1, 2);
  CHECK(two.losses[5] < 0.9 * two.losses[0]);
  const path fresh = train(1, over_ring), stale = train(1, over_ring, 3);
  CHECK(fresh.losses[1] == stale.losses[1]);  // after the first step, with factors of its own
  CHECK(fresh.losses[2] != stale.losses[2]);
  CHECK(stale.losses[5] < 0.9 * stale.losses[0]);
  CHECK(distance(train(3, over_ring, 3), stale) < 1e-9);
}

TEST_CASE("kfac: frozen layers keep their bits, and a step that is not finite leaves every bit") {
  on_ranks(2, [&](threads comm) {
    small_resnet model;
    const synthetic data{.extent = image, .classes = 4, .samples = 24, .seed = 3};
    loader feed{data, comm, {.global_batch = 12}};
    trainer run{model,
                kfac{velocity_sgd{}},
                constant{.learning_rate = 0.01},
                ring{comm},
                {.freeze = "conv1, bn1"}};
    const std::vector<double> conv1(run.weights("conv1.weight").begin(),
                                    run.weights("conv1.weight").end());
    const auto micro = feed.next();
    CHECK(run.step(micro, 0).applied);
    CHECK(std::equal(conv1.begin(), conv1.end(), run.weights("conv1.weight").begin()));
    const std::vector<double> before(run.weights().begin(), run.weights().end());
    batch<cpu> bad = micro.front();
    const std::vector<std::int32_t> labels(static_cast<std::size_t>(bad.count), 0);
    bad.normalization.scale[0] = NAN;
    CHECK(!run.step(std::span(&bad, 1), 0).applied);
    CHECK(std::equal(before.begin(), before.end(), run.weights().begin()));
    const auto good = run.step(micro, 0);  // the sums of the step before are gone
    CHECK(good.applied);
    for (const double w : run.weights()) CHECK(std::isfinite(w));
    return 0;
  });
}

TEST_CASE("kfac refuses a model whose layers pass no samples, which would have no factors") {
  constexpr std::array<std::uint8_t, 2> x{1, 2};
  constexpr std::array<std::int32_t, 1> labels{0};
  const batch<cpu> b{
      .pixels = {x.data(), 2}, .labels = {labels.data(), 1}, .count = 1, .global_samples = 1};
  silent model;
  trainer run{model, kfac{sgd{}}, constant{.learning_rate = 1}, solo{}};
  CHECK(contains(error_message([&] { run.step(std::span(&b, 1), 0); }),
                 "kfac: a layer of this model passes no samples"));
}

TEST_CASE("kfac keeps the laws of optimizers, describes itself and refuses nonsense") {
  CHECK(optimizer_laws(kfac{velocity_sgd{}}) == "");
  CHECK(kfac{sgd{}, 0.01}.describe() ==
        "kfac, damping 0.01 (batch norm 16 times that), factors of every 1. step, of " +
            sgd{}.describe());
  CHECK(contains(error_message([] { kfac{sgd{}, 0.0}.check(); }), "damping is 0"));
  CHECK(contains(error_message([] {
                   kfac{sgd{}, 1e-3, -1.0}.check();
                 }),
                 "batch_norm_damping is -1"));
  CHECK(contains(error_message([] { kfac{sgd{}, 1e-3, 16.0, 0}.check(); }), "refresh is a number"));
  CHECK(contains(error_message([] { kfac{sgd{.momentum = 2}}.check(); }), "momentum is 2"));
}
