// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Files of weights are a header of their own, which costs only those who use it.
#include <cordee/comm/solo.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>
#if !defined(WITHOUT_THE_HEADER)
#include <cordee/train/weights.hpp>
#endif

#include "tests/support/quadratic.hpp"

using namespace cordee;

void keep(support::quadratic<fp32>& model) {
  trainer run{model, sgd{}, [](double) { return 0.1; }, solo{}};
  run.save("weights.safetensors");
}
