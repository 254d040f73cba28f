// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors, and what is evaluated and saved: tests/train/goldens_wrappers.cpp.
#include <doctest/doctest.h>

#include <cordee/optim/clip.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/optim/weight_average.hpp>
#include <cordee/testing/optimizer_laws.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::optim;

static_assert(AveragesWeights<weight_average<sgd, exponential_average>>);
static_assert(HidesAverage<clip<weight_average<sgd, exponential_average>>> &&
              !HidesAverage<weight_average<clip<sgd>, exponential_average>>);
static_assert(HasMomentumForm<weight_average<decentlam, exponential_average>> &&
              !HasMomentumForm<weight_average<sgd, exponential_average>>);

TEST_CASE("weight_average obeys the optimizer laws around every kind of optimizer") {
  constexpr optimizer_law_options lr_inside{.zero_learning_rate_moves_nothing = false};
  CHECK(optimizer_laws(weight_average{clip{sgd{}, 0.5}, exponential_average{}}) == "");
  CHECK(optimizer_laws(weight_average{local_steps{sgd{}, 2}, stochastic_average{1, 2}}) == "");
  CHECK(optimizer_laws(weight_average{decentlam{}, exponential_average{0.5}}, lr_inside) == "");
}

TEST_CASE("stochastic_average's shares: a copy up to the first, then 1/n every period-th step") {
  const stochastic_average every{.start = 3, .period = 2};
  // Steps 1 to 4 copy, 5 is the first of the mean (a copy too), 7 the second.
  for (const std::int64_t step : {1, 2, 3, 4, 5}) CHECK(every.gain(step - 1) == 1);
  CHECK(every.gain(5) == 0);
  CHECK(every.gain(6) == 0.5);
  CHECK(every.gain(7) == 0);
  CHECK(every.gain(8) == 1 / 3.0);
  const stochastic_average seldom{.start = 1, .period = 2'147'483'647};
  for (const std::int64_t n : {2, 3, 1000})
    for (const int off : {-1, 0, 1})
      CHECK(seldom.gain(n * seldom.period + off) == (off == 0 ? 1 / static_cast<double>(n) : 0));
  CHECK(stochastic_average{}.gain(0) == 1);
  CHECK(stochastic_average{}.gain(3) == 0.25);
}

TEST_CASE("weight_average describes every option and refuses those out of range") {
  CHECK(weight_average{sgd{}, exponential_average{0.5}}.describe() ==
        sgd{}.describe() + "; evaluated by the exponential average of weights, decay 0.5");
  CHECK(weight_average{sgd{}, stochastic_average{4, 2}}.describe() ==
        sgd{}.describe() + "; evaluated by the mean of the weights of every 2 steps after step 4");
  const auto refusal = [](const auto& o) { return support::error_message([&] { o.check(); }); };
  CHECK(refusal(weight_average{sgd{}, exponential_average{1}}) ==
        "exponential_average: decay is 1, but must be in [0, 1)");
  CHECK(support::contains(refusal(weight_average{sgd{}, stochastic_average{-1, 1}}),
                          "stochastic_average: start is negative"));
  CHECK(refusal(weight_average{sgd{}, stochastic_average{0, 0}}) != "");
  CHECK(support::contains(
      refusal(weight_average{sgd{}, stochastic_average{0, std::int64_t{1} << 31}}),
      "stochastic_average: the period must be below 2^31 steps"));
  CHECK(refusal(weight_average{sgd{.momentum = 2}, exponential_average{}}) != "");
}
