// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <doctest/doctest.h>

#include <cordee/core/training_step.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/one_bit_adam.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/optim/zero_one_adam.hpp>
#include <cordee/train/step/momentum_exchange.hpp>
#include <cordee/train/step/planes.hpp>

#include "tests/support/quadratic.hpp"

using namespace cordee;
using support::t4_table;

namespace {

struct one_slot {
  static constexpr int slots = 1;
};

}  // namespace

TEST_CASE(
    "momentum_exchange: variance steps are exact, the first local step clears the residuals") {
  // Steps 0, 1 and 3 update the variance; 4 is the first local one.
  const auto check = [](const auto& optimizer, std::int64_t step, bool exact, bool cleared) {
    CAPTURE(step);
    using O = std::remove_cvref_t<decltype(optimizer)>;
    detail::train::planes<float, cpu, O, one_slot> planes(cpu(1), t4_table);
    const bucket all{0, 0, 256, planes.trainables(), 0};
    const span_on<float, cpu> residual = planes.held_slot(O::slots).numbers;
    residual[3] = 2;
    const auto view =
        detail::train::proposed_bucket(optimizer, step_info{.step = step}, planes, all,
                                       planes.grads(), span_on<std::byte, cpu>{}, cpu::stream{});
    CHECK(view.exact == exact);
    CHECK(view.values.data == planes.grads().data);
    CHECK(residual[3] == (cleared ? 0 : 2));
  };
  const zero_one_adam optimizer{.var_freeze_step = 3, .var_update_scaler = 2};
  const std::array<bool, 6> exact{true, true, false, true, false, false};
  for (std::int64_t step = 0; step < 6; ++step) {
    check(optimizer, step, exact[static_cast<std::size_t>(step)], step == 4);
    check(clip{optimizer}, step, exact[static_cast<std::size_t>(step)], step == 4);
    check(one_bit_adam{}, step, false, false);
    check(sgd{}, step, false, false);
  }
}
