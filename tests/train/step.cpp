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
