// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/train/step.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;

TEST_CASE("step_outcome: a gradient was finite where the step was applied and no bucket zeroed") {
  CHECK(step_outcome{}.finite());
  CHECK_FALSE(step_outcome{.applied = false}.finite());
  CHECK_FALSE(step_outcome{.zeroed = 1}.finite());
}

TEST_CASE("the end of a run that is finite no more names tensor, step, rate and loss") {
  const step_outcome last{.now = {.step = 7, .epoch = 1.5, .rate = 0.25}, .loss_scale = 0.5};
  const std::string said = support::complaint([&] { give_up(20, "conv1.weight", last, true); });
  for (const char* part : {"20 steps in a row", "\"conv1.weight\"", "step 7", "epoch 1.5",
                           "rate 0.25", "loss scale 0.5", "lower the rate"})
    CHECK_MESSAGE(support::contains(said, part), said);
}

TEST_CASE("trainer_options: what is safe is what one gets") {
  constexpr trainer_options o;
  CHECK(o.guarded);
  CHECK(o.check_stability);
  CHECK(o.loss_scaling.initial == 65536);
}

TEST_CASE("progress: every step counts, rounds where something was said, rates where it was made") {
  progress p;
  step_outcome made{.now = p.at(0, 0.5)};
  p.advance(made, true);
  CHECK((p.step == 1 && p.applied == 1 && p.round == 1 && p.not_finite == 0));
  made = {.now = p.at(1, 0.25), .applied = false};
  CHECK((made.now.step == 1 && made.now.rate == 0.25 && made.now.previous_rate == 0.5));
  p.advance(made, false);
  CHECK((p.step == 2 && p.applied == 1 && p.round == 1 && p.not_finite == 1));
  CHECK(p.previous_rate == 0.5);
  p.advance({.now = p.at(2, 0.25), .zeroed = 1}, true);
  CHECK((p.applied == 2 && p.round == 2 && p.not_finite == 2 && p.previous_rate == 0.25));
  p.advance({.now = p.at(3, 0.125)}, true);
  CHECK((p.applied == 3 && p.not_finite == 0));
}
