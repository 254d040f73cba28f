// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/train/step.hpp>

using namespace cordee;

TEST_CASE("step_outcome: a gradient was finite where the step was applied and no bucket zeroed") {
  CHECK(step_outcome{}.finite());
  CHECK_FALSE(step_outcome{.applied = false}.finite());
  CHECK_FALSE(step_outcome{.zeroed = 1}.finite());
}

TEST_CASE("trainer_options: what is safe is what one gets") {
  constexpr trainer_options o;
  CHECK(o.guarded);
  CHECK(o.check_stability);
  CHECK(o.loss_scaling.initial == 65536);
}
