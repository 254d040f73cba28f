// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/schedule/auto_wu.hpp>

#include "tests/support/relative.hpp"

using namespace cordee;
using namespace cordee::detail::schedule;
using support::relative;

namespace {

// A run of `per_epoch` updates an epoch, of which the loss is loss(k); the learning rates of all.
template <class Loss>
std::vector<double> run(auto_wu& s, int per_epoch, const Loss& loss) {
  std::vector<double> learning_rates;
  const int total = static_cast<int>(s.epochs * per_epoch);
  for (int k = 0; k < total; ++k) {
    const double epoch = static_cast<double>(k) / per_epoch;
    learning_rates.push_back(s(epoch));
    observation seen{epoch, loss(k)};
    if ((k + 1) % per_epoch == 0) seen.epoch_loss = seen.loss;
    s.observe(seen);
  }
  return learning_rates;
}

// (x - 0.4)^2, x = k / 500, and noise of standard deviation 0.01.
double noisy(int k) {
  random_sequence noise(7, purpose::test, 0, static_cast<std::uint64_t>(k));
  const double x = k / 500.0;
  return (x - 0.4) * (x - 0.4) + 0.01 * noise.normal();
}

}  // namespace

TEST_CASE("auto_wu: golden learning rates of the warm-up and of a switch") {
  // 500 updates of warm-up, as epochs: E = 1000.
  const auto_wu s{.epochs = 1000};
  CHECK(s(0) == 1e-5);
  CHECK(s(1) / s(0) == relative(1.023292992280754, 1e-14));
  CHECK(s(250) == relative(0.00316227766017, 1e-12));
  CHECK(s.interpolated(0.1, 0.8) == relative(0.0158489319246, 1e-11));
  const auto_wu line{.epochs = 1000, .linear = true};
  CHECK(line(250) == relative(1e-5 + (1 - 1e-5) / 2, 1e-14));
  CHECK(line.interpolated(0.1, 0.8) == relative(1e-5 + (0.1 - 1e-5) * 0.8, 1e-14));
}

TEST_CASE("auto_wu: switches soon after the minimum of a noisy parabola, back to the minimum") {
  auto_wu s{.epochs = 20};
  std::size_t confident = 0, switched = 0;
  for (int k = 0; k < 1000 && switched == 0; ++k) {
    observation seen{k / 50.0, noisy(k)};
    if (k % 50 == 49) seen.epoch_loss = seen.loss;
    s.observe(seen);
    if (s.learned[auto_wu::at::majorities] == 1 && k % 50 == 49)
      confident = static_cast<std::size_t>(k / 50);
    if (s.learned[auto_wu::at::phase] != 0) switched = static_cast<std::size_t>(k / 50);
  }
  CHECK(confident >= 4);  // the minimum is at the end of epoch 3
  CHECK(confident <= 7);
  CHECK(switched == confident + 2);
  const double share = std::log(s.learned[auto_wu::at::held] / 1e-5) / std::log(1e5);
  CHECK(share > 0.37);
  CHECK(share < 0.43);
  // Another seed draws other subsets of the 450 losses or fewer only for the fit of 100.
  auto_wu other{.epochs = 20, .seed = 1};
  run(other, 50, noisy);
  CHECK(other.learned[auto_wu::at::held] != s.learned[auto_wu::at::held]);
  CHECK(other.learned[auto_wu::at::held] == relative(s.learned[auto_wu::at::held], 0.2));
}

TEST_CASE("auto_wu: a loss that falls ends the warm-up at its share; then constant, then cosine") {
  const auto falling = [](int k) { return 3 - 0.005 * k; };
  auto_wu s{.epochs = 20};
  const std::vector<double> rates = run(s, 10, falling);
  // Decisions come after an update: the first one with the held learning rate is number 100, and
  // number 160 is the first of 40 of the cosine.
  const double held = rates[99];
  CHECK(held == relative(1e-5 * std::pow(1e5, 99.0 / 100), 1e-12));
  for (std::size_t k = 100; k < 160; ++k) CHECK(rates[k] == held);
  for (std::size_t k = 160; k < 200; ++k) {
    const double t = static_cast<double>(k - 159) / 40;
    CHECK(std::abs(rates[k] - held * (1 + std::cos(std::numbers::pi * t)) / 2) < 1e-12);
  }
  auto_wu at_once{.epochs = 20, .immediate_cooldown = true, .half_cosine = true};
  const std::vector<double> cooled = run(at_once, 10, falling);
  CHECK(cooled[99] == held);
  for (std::size_t k = 100; k < 200; ++k) {
    const double t = static_cast<double>(k - 99) / 100;
    CHECK(std::abs(cooled[k] - held * (1 + std::cos(std::numbers::pi * (1 + t) / 2)) / 2) < 1e-12);
  }
}

TEST_CASE("auto_wu: losses that are no numbers keep their places and change nothing else") {
  const auto gaps = [](int k) {
    return k % 9 == 4   ? std::numeric_limits<double>::quiet_NaN()
           : k % 9 == 5 ? std::numeric_limits<double>::infinity()
                        : noisy(k);
  };
  auto_wu s{.epochs = 20}, none{.epochs = 20};
  run(s, 50, gaps);
  const double share = std::log(s.learned[auto_wu::at::held] / 1e-5) / std::log(1e5);
  CHECK(share > 0.37);
  CHECK(share < 0.43);
  const auto rates = run(none, 50, [](int) { return std::nan(""); });
  CHECK(rates[700] == rates[499]);
}

TEST_CASE(
    "auto_wu: a loss that explodes ends the warm-up, one that is no number any more does not") {
  // Falls for 80 updates of a warm-up of 200; then `first`, half as much again with each update.
  const auto exploding = [](double first) {
    return [first](int k) {
      random_sequence noise(7, purpose::test, 0, static_cast<std::uint64_t>(k));
      return k < 80 ? 3 - 0.01 * k + 0.05 * noise.normal() : std::pow(1.5, k - 80) * first;
    };
  };
  for (const double first : {5.0, 1e6, 1e30}) {
    CAPTURE(first);
    auto_wu s{.epochs = 40};
    const auto rates = run(s, 10, exploding(first));
    CHECK(rates[109] == relative(1e-5 * std::pow(1e5, 109.0 / 200), 1e-12));
    CHECK(rates[110] == s.learned[auto_wu::at::held]);  // after `patience` epochs
    CHECK(rates[110] < rates[109]);
    const double place = 200 * std::log(rates[110] / 1e-5) / std::log(1e5);
    CHECK(place > 40);
    CHECK(place < 100);
  }
  auto_wu gone{.epochs = 40};
  const auto rates = run(gone, 10, [](int k) { return k < 60 ? 3 - 0.01 * k : std::nan(""); });
  CHECK(rates[199] == relative(1e-5 * std::pow(1e5, 199.0 / 200), 1e-12));
}

TEST_CASE(
    "auto_wu: a copy with its state goes on alike, from the warm-up, the hold, the cooldown") {
  const std::vector<int> stops{123, 449, 450, 700, 850};
  std::vector<auto_wu> copies;
  auto_wu whole{.epochs = 20};
  for (int k = 0; k < 1000; ++k) {
    if (std::ranges::count(stops, k) > 0)
      copies.push_back({.epochs = 20, .learned = whole.state()});
    observation seen{k / 50.0, noisy(k)};
    if (k % 50 == 49) seen.epoch_loss = seen.loss;
    whole.observe(seen);
    for (auto_wu& copy : copies) {
      copy.observe(seen);
      CHECK(copy((k + 1) / 50.0) == whole((k + 1) / 50.0));
    }
  }
  CHECK(copies.size() == stops.size());
  for (const auto_wu& copy : copies) CHECK(copy.learned == whole.learned);
}

TEST_CASE("auto_wu: describes itself, before and after the switch, and refuses nonsense") {
  auto_wu s{.epochs = 20};
  CHECK(
      s.describe() ==
      "AutoWU over 20 epochs: exponential from 1e-05 to at most 1 at epoch 10 or after 3 epochs in "
      "which most of 5 processes (seed 0) are 95 % sure of a minimum, then constant from where the "
      "loss had its minimum, and a cosine to 0 from epoch 16 on");
  s.learned[auto_wu::at::phase] = 1;
  s.learned[auto_wu::at::held] = 0.25;
  s.immediate_cooldown = true;
  s.seed = 7;
  CHECK(s.describe() ==
        "AutoWU over 20 epochs: exponential from 1e-05 to at most 1 at epoch 10 or after 3 epochs "
        "in which most of 5 processes (seed 7) are 95 % sure of a minimum, then a cosine to 0; has "
        "switched to 0.25");
  CHECK_THROWS_AS(auto_wu{}(0), usage_error);
  CHECK_THROWS_AS((auto_wu{.epochs = 1, .min_learning_rate = 0}(0)), usage_error);
  CHECK_THROWS_AS((auto_wu{.epochs = 1, .min_learning_rate = 2}(0)), usage_error);
  CHECK_THROWS_AS((auto_wu{.epochs = 1, .warmup_share = 0}(0)), usage_error);
  CHECK_THROWS_AS((auto_wu{.epochs = 1, .cooldown_share = 1.5}(0)), usage_error);
  CHECK_THROWS_AS((auto_wu{.epochs = 1, .tests = 0}(0)), usage_error);
  CHECK_THROWS_AS((auto_wu{.epochs = 1, .patience = 0}(0)), usage_error);
  CHECK_THROWS_AS((auto_wu{.epochs = 1, .confidence = 1}(0)), usage_error);
  auto_wu foreign{.epochs = 1};
  foreign.state() = {1, 2, 3};
  CHECK_THROWS_WITH_AS(foreign(0), "auto_wu: the saved state is that of another schedule", error);
}
