// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/core/random.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/describe.hpp>
#include <cordee/train/step/gradient_noise.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/relative.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr constant steady{0.05};
const trainer_options measured{.bucket_bytes = 512, .measure_gradient_noise = true};

/// Rank r has r + 1 samples.
struct uneven_loader : toy_loader {
  int rank = 0;
  [[nodiscard]] std::int64_t global_batch() const { return rank_count * (rank_count + 1) / 2; }
  std::span<const batch<cpu>> next() {
    ++next_step;
    batches.assign(1, {{}, {}, rank + 1, global_batch(), rank_count});
    return batches;
  }
};

// |a (w - c - shift)|^2 at the first step.
double first_square(double shift) {
  double sum = 0;
  for (std::size_t k = 0; k < 4; ++k)
    for (std::size_t i = 0; i < t4_table[k].size; ++i) {
      const double g = t4_curvature[k][i] * (t4_start[k][i] - t4_center[k][i] - shift);
      sum += g * g;
    }
  return sum;
}

struct keep_noise {
  std::vector<detail::train::gradient_noise>* out;
  void step(const step_record& r) { out->push_back(r.noise); }
};

}  // namespace

TEST_CASE("noise_estimate: golden, and exactly the sample covariance of single samples") {
  const detail::train::noise_estimate e = detail::train::noise_estimate::of(5, 32, 1.5, 256);
  CHECK(e.squared_gradient == relative(1, 1e-14));
  CHECK(e.trace == relative(128, 1e-14));
  // Gradients (1, 0), (3, 2), (2, -1), (2, 3).
  const detail::train::noise_estimate four = detail::train::noise_estimate::of(8, 1, 5, 4);
  CHECK(four.squared_gradient == relative(4, 1e-14));
  CHECK(four.trace == relative(4, 1e-14));
  for (const int n : {2, 3, 10}) {
    random_sequence random(3, purpose::test, 0, static_cast<std::uint64_t>(n));
    std::vector<double> x;
    double mean = 0, squares = 0, covariance = 0;
    for (int i = 0; i < n; ++i) x.push_back(random.normal());
    for (const double v : x) mean += v / n, squares += v * v / n;
    for (const double v : x) covariance += (v - mean) * (v - mean) / (n - 1);
    CHECK(detail::train::noise_estimate::of(squares, 1, mean * mean, n).trace ==
          relative(covariance, 1e-12));
  }
  CHECK_THROWS_AS(detail::train::noise_estimate::of(5, 32, 1.5, 32), usage_error);
}

TEST_CASE("gradient_noise: averages without bias, the golden trade-off, and what it says") {
  detail::train::gradient_noise noise;
  CHECK(describe(noise, 256) == "not measured yet");
  for (int k = 0; k < 5; ++k) {
    noise.add({1, 128});
    CHECK(noise.scale() == relative(128, 1e-13));
    CHECK(noise.scale_error() < 1e-5);
  }
  constexpr double golden[][3]{{32, 5, 1.25}, {128, 2, 2}, {256, 1.5, 3}, {1024, 1.125, 9}};
  for (const auto& [batch, updates, samples] : golden) {
    CHECK(noise.updates_at(batch) == relative(updates, 1e-12));
    CHECK(noise.samples_at(batch) == relative(samples, 1e-12));
  }
  CHECK(contains(describe(noise, 32), "more workers pay up to about a batch of 128"));
  CHECK(contains(describe(noise, 256), "more workers have stopped to pay at about a batch of 128"));
  // Two steps of nearly equal weight: half of their difference.
  detail::train::gradient_noise two;
  two.add({1, 0});
  two.add({3, 0});
  CHECK(two.squared_gradient_error() == relative(1, 1e-3));
  detail::train::gradient_noise drowned;
  drowned.add({-1, 5});
  CHECK(std::isnan(drowned.scale()));
  CHECK(contains(describe(drowned, 256), "not known yet"));
}

TEST_CASE("gradient_noise: its standard errors are those of the averages, over many runs") {
  // 400 runs of 300 steps with independent estimates; the spread of 400 runs has a relative
  // standard error of 1/sqrt(800), of which four are allowed.
  constexpr int runs = 400, steps = 300;
  double g = 0, gg = 0, r = 0, rr = 0, predicted_g = 0, predicted_r = 0;
  for (int run = 0; run < runs; ++run) {
    random_sequence random(5, purpose::test, 1, static_cast<std::uint64_t>(run));
    detail::train::gradient_noise noise;
    for (int k = 0; k < steps; ++k) {
      const double shared = random.normal();
      noise.add({10 + shared + random.normal(), 100 - 5 * shared + 5 * random.normal()});
    }
    g += noise.squared_gradient();
    gg += noise.squared_gradient() * noise.squared_gradient();
    r += noise.scale();
    rr += noise.scale() * noise.scale();
    predicted_g += noise.squared_gradient_error() * noise.squared_gradient_error();
    predicted_r += noise.scale_error() * noise.scale_error();
  }
  const auto variance = [](double sum, double squares) {
    return squares / runs - sum / runs * (sum / runs);
  };
  CHECK(std::sqrt(predicted_g / runs / variance(g, gg)) == relative(1, 4 / std::sqrt(800.0)));
  CHECK(std::sqrt(predicted_r / runs / variance(r, rr)) == relative(1, 4 / std::sqrt(800.0)));
}

TEST_CASE("trainer: the noise of a toy with known covariance, golden, on all ranks alike") {
  for (const int ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    double variance = 0, own = 0;  // of the centers; of the first gradients
    for (int r = 0; r < ranks; ++r) {
      const double shift = 0.25 * (r - 0.5 * (ranks - 1));
      variance += shift * shift / (ranks - 1);
      own += first_square(shift) / ranks;
    }
    const double trace = 36.3125 * variance;  // the sum of squared curvatures
    const double mean = 2.2936052406637026 * 2.2936052406637026;
    CHECK(own == relative(mean + trace * (ranks - 1) / ranks, 1e-12));
    for (const auto& noises : on_ranks(ranks, [&](threads comm) {
           quadratic<fp64> model{.shift = 0.25 * (comm.rank() - 0.5 * (ranks - 1))};
           trainer run{model, sgd{}, steady, ring{comm}, measured};
           toy_loader feed{.rank_count = ranks};
           std::vector<detail::train::gradient_noise> out;
           run.fit(feed, 1, keep_noise{&out});
           out.push_back(run.fit_state().noise);
           return out;
         })) {
      for (const detail::train::gradient_noise& n : noises)
        CHECK(n.trace() == relative(trace, 1e-11));
      if (noises.size() > 1)  // rank 0
        CHECK(noises[0].squared_gradient() == relative(mean - trace / ranks, 1e-11));
    }
  }
}

TEST_CASE("trainer: ranks with other shares count by the mean of 1/samples") {
  constexpr int ranks = 3;
  const auto by_rank = on_ranks(ranks, [&](threads comm) {
    quadratic<fp64> model{.shift = 0.25 * comm.rank()};
    trainer run{model, sgd{}, steady, ring{comm}, measured};
    uneven_loader feed;
    feed.rank_count = ranks;
    feed.rank = comm.rank();
    run.fit(feed, 0.1);
    return run.fit_state().noise;
  });
  double own = 0, inverse = 0, center = 0;
  for (int r = 0; r < ranks; ++r) {
    own += first_square(0.25 * r) / ranks;
    inverse += 1.0 / (r + 1) / ranks;
    center += 0.25 * r * (r + 1) / 6;
  }
  const detail::train::noise_estimate e =
      detail::train::noise_estimate::of(own, 1 / inverse, first_square(center), 6);
  for (const detail::train::gradient_noise& n : by_rank) {
    CHECK(n.trace() == relative(e.trace, 1e-11));
    CHECK(n.squared_gradient() == relative(e.squared_gradient, 1e-11));
  }
}

TEST_CASE(
    "trainer: measuring changes no bit of the weights, and a skipped step counts for nothing") {
  for (const bool measures : {false, true}) {
    static std::vector<double> weights;
    const auto by_rank = on_ranks(3, [&](threads comm) {
      quadratic<fp64> model{.shift = 0.25 * comm.rank()};
      if (comm.rank() == 1) model.poisons = {{3, 1}};
      trainer run{model, sgd{}, steady, ring{comm}, {.measure_gradient_noise = measures}};
      toy_loader feed{.rank_count = 3};
      run.fit(feed, 1);
      const auto& averages = run.fit_state().noise.averages;
      CHECK(run.fit_state().noise.empty() == !measures);
      if (measures)
        CHECK(averages[0] == relative(1 - std::pow(detail::train::gradient_noise::beta, 9), 1e-13));
      const detail::train::step_outcome out = run.step(std::array{one_each(3)}, 1);
      CHECK((out.squared_local_norm > 0) == measures);  // not computed when off
      return numbers(run.weights(), 0);
    });
    if (!measures) weights = by_rank[0];
    CHECK(by_rank[0] == weights);
  }
}

TEST_CASE("trainer: measure_gradient_noise is refused where there is nothing to compare") {
  quadratic<fp64> model;
  CHECK_THROWS_AS((trainer{model, sgd{}, steady, solo{}, measured}), usage_error);
  const auto refusal = [](const auto& optimizer, const trainer_options& options) {
    return error_message([&] {
      threads::launch(2, [&](threads comm) {
        quadratic<fp64> other;
        trainer{other, optimizer, steady, ring{comm}, options};
      });
    });
  };
  CHECK(contains(refusal(local_steps{sgd{}, 2}, measured), "an optimizer that averages gradients"));
  trainer_options unchecked = measured;
  unchecked.check_finite = false;
  CHECK(contains(refusal(sgd{}, unchecked), "set both"));
  on_ranks(2, [](threads comm) {
    quadratic<fp64> other;
    trainer run{other, sgd{}, steady, ring{comm}, measured};
    toy_loader feed{.rank_count = 2};
    CHECK(contains(describe(run, feed, 1), "noise           not measured yet"));
    return 0;
  });
}
