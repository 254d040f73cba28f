// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors are reached through the trainer: tests/train/goldens_rules.cpp.
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/optim/lamb.hpp>
#include <cordee/testing/workbench.hpp>

using namespace cordee;

static_assert(OptimizerOn<lamb, float, cpu> && OptimizerOn<nvlamb, double, cpu>);

namespace {

double norm_of(const std::vector<double>& x, const segment& s) {
  double square = 0;
  for (std::size_t i = s.offset; i < s.end(); ++i) square += x[i] * x[i];
  return std::sqrt(square);
}

// How far each segment moved in the second of two steps at that rate, as a share of its norm.
template <class O>
std::vector<double> shares(const O& rule, double rate) {
  workbench<O> bench(rule);
  bench.start(3).draw_gradient(1).step(rate);
  const auto before = bench.weights();
  bench.draw_gradient(2).step(rate);
  auto moved = bench.weights();
  for (std::size_t i = 0; i < moved.size(); ++i) moved[i] -= before[i];
  std::vector<double> all;
  for (const segment& s : bowl_table) all.push_back(norm_of(moved, s) / norm_of(before, s));
  return all;
}

}  // namespace

TEST_CASE("a step of lamb is rate times the norm of the weights, of nvlamb in every segment") {
  for (const double rate : {0.001, 0.1}) {
    const auto some = shares(lamb{}, rate), all = shares(nvlamb{}, rate);
    for (std::size_t k = 0; k < bowl_table.size(); ++k) {
      const segment& s = bowl_table[k];
      if (s.size == 0 || s.what == kind::statistic) continue;
      CAPTURE(s.name);
      CHECK(all[k] == doctest::Approx(rate).epsilon(1e-12));
      if (s.what == kind::weight)
        CHECK(some[k] == doctest::Approx(rate).epsilon(1e-12));
      else
        CHECK(std::abs(some[k] / rate - 1) > 1e-3);
    }
  }
}

TEST_CASE("the ratio is |w| / |u|, and 1 where a norm is zero or the quotient is no number") {
  const lamb rule{};
  CHECK(rule.ratio(3, 4) == 0.75);
  CHECK(rule.ratio(0, 4) == 1);
  CHECK(rule.ratio(3, 0) == 1);
  CHECK(rule.ratio(HUGE_VAL, HUGE_VAL) == 1);
  CHECK(nvlamb{}.ratio(1e300, 1e-300) == 1);
}

TEST_CASE("decay acts inside the ratio, on the kinds in `decays` alone") {
  // Without a gradient u is weight_decay w, so that a step is rate |w| whatever the decay.
  workbench<lamb> bench(lamb{.weight_decay = 0.3});
  const auto before = bench.start(4).weights();
  const auto after = bench.draw_gradient(1, 0).step(0.1).weights();
  for (const segment& s : bowl_table)
    for (std::size_t i = s.offset; i < s.end(); ++i) {
      const double expected = s.what == kind::weight ? 0.9 * before[i] : before[i];
      if (std::abs(after[i] - expected) > 1e-14) FAIL_CHECK(s.name << " " << i);
    }
}
