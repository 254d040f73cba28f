// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/optim/adamw.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/testing/workbench.hpp>

using namespace cordee;

namespace {

// The first number of the state that is none, or infinite, after some steps; zero if there is none.
template <class O>
float spoilt(const O& rule, double rate, double other, float start, float gradient) {
  workbench<O, float> bench(rule);
  bench.start(9, start);
  for (int k = 0; k < 8; ++k) {
    bench.draw_gradient(static_cast<std::uint64_t>(k), gradient);
    bench.step(k % 3 == 2 ? other : rate);
    for (const float x : bench.state())
      if (!std::isfinite(x)) return x;
  }
  return 0;
}

}  // namespace

// No float holds 1e300, and infinity times a zero is not a number.
TEST_CASE("no rate that a schedule may give, and no decay, turns a finite state into NaN") {
  constexpr float vast = std::numeric_limits<float>::max() / 8;
  const auto stays = [&](const auto&... rules) {
    const auto one = [&](const auto& rule) {
      CAPTURE(rule.describe());
      for (const double rate : {1e-300, 1e4, 1e38, 1e300})
        for (const double other : {0.0, 0.1})
          for (const float start : {0.0f, 1.0f, vast})
            for (const float gradient : {0.0f, 1.0f, vast})
              CHECK_MESSAGE(spoilt(rule, rate, other, start, gradient) == 0, "rates ", rate,
                            " and ", other, ", weights of ", start, ", gradients of ", gradient);
    };
    (one(rules), ...);
  };
  for (const double decay : {1e-4, 1e10, 1e300})
    stays(sgd{.weight_decay = decay, .nesterov = true}, velocity_sgd{.weight_decay = decay},
          lars{.weight_decay = decay}, lars_rate_outside{.weight_decay = decay},
          lars_unscaled{.weight_decay = decay}, lamb{.weight_decay = decay},
          nvlamb{.weight_decay = decay}, adamw{.weight_decay = decay},
          decentlam{.weight_decay = decay, .corrected = true},
          decentlam_over{lars{.weight_decay = decay}}, clip{sgd{.weight_decay = decay}, 0.5},
          local{sgd{.weight_decay = decay}, 2});
}
