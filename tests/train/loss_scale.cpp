// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/cordee.hpp>
#include <cordee/train/loss_scale.hpp>

#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Half precision's way with the loss, in numbers that keep every bit.
template <class P>
struct scaled : P {
  static constexpr bool scales_loss = true;
};

constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("loss_scale: the golden trace, infinities at steps 0, 1 and 6, interval 3") {
  const loss_scaling by{.interval = 3};
  loss_scale s{65536};
  const std::vector<bool> finite{false, false, true, true, true, true, false, true, true, true};
  const std::vector<float> values{32768, 16384, 16384, 16384, 32768,
                                  32768, 16384, 16384, 16384, 32768};
  const std::vector<int> seen{0, 0, 1, 2, 0, 1, 0, 1, 2, 0};
  for (std::size_t k = 0; k < finite.size(); ++k) {
    s.update(by, finite[k]);
    CHECK(s.value == values[k]);
    CHECK(s.seen == seen[k]);
  }
}

TEST_CASE("loss_scale: it does not grow to infinity, and starts counting again") {
  loss_scale s{0x1p127f, 0};
  s.update({.interval = 1}, true);
  CHECK(s.value == 0x1p127f);
  CHECK(s.seen == 0);
}

TEST_CASE("loss_scale: options that make no sense are refused") {
  for (const loss_scaling& wrong :
       {loss_scaling{.initial = 0}, loss_scaling{.initial = infinity},
        loss_scaling{.initial = 1e39}, loss_scaling{.initial = 1e-46},
        loss_scaling{.initial = 1e-40}, loss_scaling{.growth = 0.5}, loss_scaling{.backoff = 0},
        loss_scaling{.backoff = 2}, loss_scaling{.interval = 0}})
    CHECK(contains(complaint([&] { wrong.check(); }), "loss_scaling: "));
  for (const double least_and_most : {0x1p-126, 0x1p127}) {
    const loss_scale s = loss_scale::first({.initial = least_and_most});
    CHECK(s.value == least_and_most);
    CHECK(s.inverse() == 1 / least_and_most);
  }
}

TEST_CASE("trainer: a scaled loss trains to the same bits, for scales that are powers of two") {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    on_ranks(ranks, [](threads link) {
      quadratic<fp64> plain;
      quadratic<scaled<fp64>> half;
      plain.shift = half.shift = 0.1 * link.rank();
      const auto rule = lars{.trust = 0.1};
      trainer a{plain, rule, constant{0.1}, ring{link}};
      trainer b{half, rule, constant{0.1}, ring{link}, {.loss_scaling = {.interval = 2}}};
      for (int k = 0; k < 9; ++k) {
        const batch<cpu> one = one_each(link.size());
        const auto out = b.step({&one, 1}, k);
        CHECK(a.step({&one, 1}, k).grad_square == out.grad_square);
        CHECK(out.loss_scale == 65536 * std::exp2(k / 2));  // of this step
      }
      for (std::size_t k = 0; k < 4; ++k) CHECK(numbers(a.weights(), k) == numbers(b.weights(), k));
      return 0;
    });
  }
}

TEST_CASE("trainer: an overflow on one rank is skipped by all, and halves everybody's scale") {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    on_ranks(ranks, [](threads link) {
      quadratic<scaled<fp64>> m;
      if (link.rank() == link.size() / 2) m.poisons = {{1, 2, infinity}, {2, 0, infinity}};
      trainer run{m, sgd{}, constant{0.1}, ring{link}};
      const batch<cpu> one = one_each(link.size());
      std::vector<double> scales;
      std::vector<bool> applied;
      for (int k = 0; k < 4; ++k) {
        const auto out = run.step({&one, 1}, k);
        scales.push_back(out.loss_scale);
        applied.push_back(out.applied);
      }
      CHECK(scales == std::vector<double>{65536, 65536, 32768, 16384});
      CHECK(applied == std::vector<bool>{true, false, false, true});
      return 0;
    });
  }
}

TEST_CASE("trainer: where ranks step alone, each has a scale of its own") {
  on_ranks(2, [](threads link) {
    quadratic<scaled<fp64>> m;
    if (link.rank() == 1) m.poisons = {{0, 2, infinity}};
    trainer run{m, local{sgd{}, 2}, constant{0.1}, ring{link}};
    const batch<cpu> one = one_each(2);
    (void)run.step({&one, 1}, 0);
    CHECK(run.step({&one, 1}, 1).loss_scale == (link.rank() == 1 ? 32768 : 65536));
    return 0;
  });
}

TEST_CASE("trainer: a scale that never fits ends the run and names the tensor") {
  quadratic<scaled<fp64>> m;
  for (int k = 0; k < 9; ++k) m.poisons.push_back({k, 2, infinity});
  trainer run{m, sgd{}, constant{0.1}, solo{}, {.patience = 5}};
  const batch<cpu> one = one_each(1);
  const std::string said = complaint([&] {
    for (int k = 0; k < 9; ++k) (void)run.step({&one, 1}, k);
  });
  CAPTURE(said);
  CHECK(contains(said, "5 steps in a row"));
  CHECK(contains(said, "\"W2\""));
  CHECK(contains(said, "loss scale 4096"));
}
