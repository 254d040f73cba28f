// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every rule's kernels in single precision. Where there is no GPU these pass without a word.
#include <doctest/doctest.h>

#include <cordee/device/cuda.cuh>
#include <cordee/ops/grid/segmented.hpp>

#include "tests/support/has_gpu.cuh"
#include "tests/support/ruled.hpp"

using namespace cordee;

static_assert(OptimizerOn<sgd, float, gpu> && OptimizerOn<clip<local<lars>>, float, gpu>);

namespace {

template <class O>
void agree(const O& rule) {
  if (support::has_gpu()) support::agrees<float>(rule, gpu{});
}

}  // namespace

TEST_CASE("cuda: sgd, velocity_sgd, decentlam") {
  agree(sgd{.weight_decay = 1e-2, .nesterov = true});
  agree(velocity_sgd{.weight_decay = 1e-2});
  agree(decentlam{.weight_decay = 1e-2});
  agree(decentlam_over{sgd{.weight_decay = 1e-2}});
}

TEST_CASE("cuda: LARS in its three forms, and its direction") {
  agree(lars{.weight_decay = 1e-2, .nesterov = true});
  agree(lars_rate_outside{.trust = 0.1});
  agree(lars_unscaled{.trust = 0.1, .ratio_limit = 0.5, .element_limit = 0.01});
  agree(decentlam_over{lars{.weight_decay = 1e-2}});
}

TEST_CASE("cuda: adamw, lamb, nvlamb") {
  agree(adamw{.weight_decay = 0.1});
  agree(lamb{});
  agree(nvlamb{.weight_decay = 0.1});
}

TEST_CASE("cuda: clip, local") {
  agree(clip{sgd{}, 0.1});
  agree(clip{local{sgd{}, 2}, 0.1});
}
