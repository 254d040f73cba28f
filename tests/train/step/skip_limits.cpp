// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The sentences of runs that end since gradients are not finite; the limits are tested with a
// trainer in loss_scale.cpp and trainer_skips.cpp.
#include <string>

#include <doctest/doctest.h>

#include <cordee/train/step/skip_limits.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;

TEST_CASE("throw_nonfinite: the message has tensor, step, learning rate, loss scale and remedy") {
  const detail::train::step_outcome last{.info = {.step = 7, .epoch = 1.5, .learning_rate = 0.25},
                                         .loss_scale = 0.5};
  const std::string message = support::error_message([&] {
    detail::train::throw_nonfinite({.step = 8, .nonfinite_steps = 20},
                                   {.loss_scaling = {.smallest = 0.25}}, "conv1.weight", "fc.bias",
                                   last, true);
  });
  for (const char* part :
       {"20 steps in a row had a gradient with a NaN or an infinity",
        "first in \"conv1.weight\", last in \"fc.bias\", which backward reached first (", "step 7",
        "epoch 1.5", "learning rate 0.25", "loss scale 0.5", "lower the learning rate"})
    CHECK_MESSAGE(support::contains(message, part), message);
}

TEST_CASE("throw_nonfinite: one tensor is named once") {
  const std::string message = support::error_message([] {
    detail::train::throw_nonfinite({.step = 8, .nonfinite_steps = 20}, {}, "fc.bias", "fc.bias", {},
                                   false);
  });
  CHECK_MESSAGE(support::contains(message, "first in \"fc.bias\" ("), message);
}
