// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The counters of a run's state (train/step/run_state.hpp).
#include <doctest/doctest.h>

#include <cordee/train/step/run_state.hpp>

using namespace cordee;

TEST_CASE("progress: counts steps, exchanges, and learning rates of applied steps") {
  detail::train::progress p;
  detail::train::step_outcome outcome{.info = p.at(0, 0.5)};
  p.advance(outcome, true);
  CHECK((p.step == 1 && p.applied == 1 && p.round == 1 && p.nonfinite_steps == 0));
  outcome = detail::train::step_outcome{.info = p.at(1, 0.25), .applied = false};
  CHECK((outcome.info.step == 1 && outcome.info.learning_rate == 0.25 &&
         outcome.info.previous_learning_rate == 0.5));
  p.advance(outcome, false);
  CHECK((p.step == 2 && p.applied == 1 && p.round == 1 && p.nonfinite_steps == 1));
  CHECK(p.previous_learning_rate == 0.5);
  p.advance({.info = p.at(2, 0.25), .zeroed_buckets = 1}, true);
  CHECK((p.applied == 2 && p.round == 2 && p.nonfinite_steps == 2 &&
         p.previous_learning_rate == 0.25));
  p.advance({.info = p.at(3, 0.125)}, true);
  CHECK((p.applied == 3 && p.nonfinite_steps == 0));
}
