// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// save, load and resume need their own headers, which other programs do not compile.
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>
#if !defined(WITHOUT_THE_HEADER)
#include <cordee/train/weights.hpp>
#endif

#include "tests/support/quadratic.hpp"

using namespace cordee;

void save_model(support::quadratic<fp32>& model) {
  trainer run{model, sgd{}, [](double) { return 0.1; }, solo{}};
  run.save("weights.safetensors");
#ifdef RESUME_WITHOUT_THE_HEADER
  run.resume("runs");
#endif
}
