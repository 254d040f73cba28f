// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors, through the trainer: tests/train/goldens_{decentralized,mixing}.cpp.
#include <doctest/doctest.h>

#include <cordee/optim/qg_dmsgd.hpp>
#include <cordee/testing/optimizer_laws.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;

static_assert(OptimizerOn<qg_dmsgd, float, cpu> && OptimizerOn<qg_dmsgd, double, cpu>);

TEST_CASE("qg_dmsgd obeys the optimizer laws") {
  constexpr optimizer_law_options lr_inside{.zero_learning_rate_moves_nothing = false};
  CHECK(optimizer_laws(qg_dmsgd{}) == "");
  CHECK(optimizer_laws(qg_dmsgd{.weight_decay = 0.1, .nesterov = true}) == "");
  CHECK(optimizer_laws(qg_dmsgd{.momentum_correction = false}, lr_inside) == "");
}

TEST_CASE(
    "qg_dmsgd names its momentum's form, describes every option, refuses what is out of range") {
  const momentum_form form = qg_dmsgd{.momentum = 0.5, .smoothing = 0.25}.momentum_form();
  CHECK(form.quasi_global);
  CHECK(form.momentum == 0.5);
  CHECK(form.smoothing == 0.25);
  CHECK(qg_dmsgd{.nesterov = true, .decay_on = {}}.describe() ==
        "qg_dmsgd, momentum 0.9 (Nesterov), smoothing 0.9, weight decay 0, with momentum "
        "correction; decays nothing");
  const auto refusal = [](const qg_dmsgd& q) { return support::error_message([&] { q.check(); }); };
  CHECK(refusal({.momentum = 1}) == "qg_dmsgd: momentum is 1, but must be in [0, 1)");
  CHECK(refusal({.smoothing = -1}) == "qg_dmsgd: smoothing is -1, but must be in [0, 1)");
  CHECK(refusal({.weight_decay = -1}) != "");
}
