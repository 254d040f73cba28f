// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/train/step.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;

TEST_CASE("step_outcome: finite() requires an applied step without a zeroed bucket") {
  CHECK(step_outcome{}.finite());
  CHECK_FALSE(step_outcome{.applied = false}.finite());
  CHECK_FALSE(step_outcome{.zeroed_buckets = 1}.finite());
}

TEST_CASE("throw_nonfinite: the message has tensor, step, learning rate, loss scale and remedy") {
  const step_outcome last{.info = {.step = 7, .epoch = 1.5, .learning_rate = 0.25},
                          .loss_scale = 0.5};
  const std::string message = support::error_message(
      [&] { detail::train::throw_nonfinite(20, "conv1.weight", last, true); });
  for (const char* part :
       {"20 steps in a row had a gradient with a NaN or an infinity", "\"conv1.weight\"", "step 7",
        "epoch 1.5", "learning rate 0.25", "loss scale 0.5", "lower the learning rate"})
    CHECK_MESSAGE(support::contains(message, part), message);
}

TEST_CASE("trainer_options: the checks are on by default") {
  const trainer_options o;
  CHECK(o.check_finite);
  CHECK(o.check_stability);
  CHECK(o.loss_scaling.initial == 65536);
}
