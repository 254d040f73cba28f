// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every rule, on a grid: what it proposes and what it leaves is what it is on the CPU, skipped
// steps included; in double precision, which shows more.
#include <cordee/ops/grid/segmented.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/ruled.hpp"

using namespace cordee;
using namespace support;

static_assert(OptimizerOn<sgd, float, emulated> && OptimizerOn<clip<local<lars>>, float, emulated>);
static_assert(DirectsOn<lars, float, emulated>);

namespace {

template <class O>
void agree(const O& rule) {
  agrees<double>(rule, emulated(1));
}

}  // namespace

TEST_CASE("grid: rules of each kind in single precision") {
  agrees<float>(sgd{.weight_decay = 1e-2, .nesterov = true}, emulated(2));
  agrees<float>(lars{.nesterov = true, .adapts = trainable}, emulated(2));
  agrees<float>(lars_unscaled{.trust = 0.1, .ratio_limit = 0.5, .element_limit = 0.01},
                emulated(2));
  agrees<float>(nvlamb{.weight_decay = 0.1}, emulated(2));
  agrees<float>(decentlam{.weight_decay = 1e-2, .nesterov = true, .corrected = true}, emulated(2));
  agrees<float>(clip{local{lars{}, 2}, 0.1}, emulated(2));
}

TEST_CASE("grid: sgd, velocity_sgd") {
  agree(sgd{});
  agree(sgd{.weight_decay = 1e-2, .dampening = 0.1});
  agree(sgd{.weight_decay = 1e-2, .nesterov = true, .decays = trainable});
  agree(velocity_sgd{.weight_decay = 1e-2});
  agree(velocity_sgd{.weight_decay = 1e-2, .nesterov = true, .correction = false});
}

TEST_CASE("grid: LARS in its three forms") {
  agree(lars{.weight_decay = 1e-2});
  agree(lars{.nesterov = true, .adapts = trainable});
  agree(lars_rate_outside{.trust = 0.1});
  agree(lars_rate_outside{.nesterov = true});
  agree(lars_unscaled{.trust = 0.1, .ratio_limit = 0.5, .element_limit = 0.01});
}

TEST_CASE("grid: adamw, lamb, nvlamb") {
  agree(adamw{.weight_decay = 0.1});
  agree(lamb{});
  agree(nvlamb{.weight_decay = 0.1});
}

TEST_CASE("grid: decentlam, by itself and over another rule's direction") {
  agree(decentlam{.weight_decay = 1e-2});
  agree(decentlam{.weight_decay = 1e-2, .nesterov = true, .corrected = true});
  agree(decentlam_over{lars{.weight_decay = 1e-2}});
  agree(decentlam_over{sgd{.weight_decay = 1e-2, .nesterov = true}});
  agree(decentlam_over{velocity_sgd{}});
}

TEST_CASE("grid: clip, whose gradient is long, short, or one's own") {
  agree(clip{sgd{}, 0.1});
  agree(clip{lars{}, 1e6});
  agree(clip{clip{nvlamb{}, 0.2}, 0.1});
  agree(clip{decentlam{}, 0.1});
  agree(clip{local{lars{}, 2}, 0.1});
}

TEST_CASE("grid: local steps") {
  agree(local{sgd{}, 2});
  agree(local{adamw{}, 3});
}
