// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/sharded.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/comm/reducers/two_shot.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/testing/update_laws.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/cut_model.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr auto one_sample = [](auto&, int) { return std::array{batch<cpu>{{}, {}, 1, 1, 1}}; };

/// The law of two runs, of which the second has this optimizer, and a NaN at this step.
std::string violations(const sgd& optimizer, std::int64_t poisoned = -1) {
  cut_model<fp32> model, other;
  other.poisoned_step = poisoned;
  trainer a{model, sgd{.momentum = 0.5}, cut_rate{}, solo{}};
  trainer b{other, optimizer, cut_rate{}, solo{}};
  return same_updates(a, b, 3, one_sample);
}

}  // namespace

TEST_CASE("same_updates: equal runs hold the law") { CHECK(violations({.momentum = 0.5}) == ""); }

TEST_CASE("same_updates: names what differs, in the first step that does") {
  CHECK(violations({.momentum = 0.5, .nesterov = true}) == "step 0: the weights differ\n");
  CHECK(violations({.momentum = 0.25}) ==
        "step 1: the weights differ\nstep 1: slot 0 of the optimizer differs\n");
  CHECK(violations({.momentum = 0.5}, 2) ==
        "step 2 is applied by one run alone\nstep 2: the weights differ\n"
        "step 2: slot 0 of the optimizer differs\n");
}

TEST_CASE("same_updates: a sharded run beside a whole one, by the slots of all ranks") {
  const auto violations_of = [](const adamw& other) {
    return on_ranks(3, [&](threads comm) {
      cut_model<fp32> model{.rank = comm.rank()}, of_shards = model;
      trainer whole{model, adamw{}, cut_rate{}, two_shot{comm}};
      trainer parts{of_shards, other, cut_rate{}, sharded{two_shot{comm}}};
      return same_updates(whole, parts, 2,
                          [&](auto&, int) { return std::array{one_each(comm.size())}; });
    });
  };
  for (const std::string& violations : violations_of({})) CHECK(violations == "");
  for (const std::string& violations : violations_of({.beta2 = 0.9}))
    CHECK(violations.find("slot 1 of the optimizer differs") != std::string::npos);
}
