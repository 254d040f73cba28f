// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The reducer of one worker.
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/testing/same_bits.hpp>

using namespace cordee;

static_assert(solo::offers == agreement::exact && solo::lossless && solo::slots == 0);

TEST_CASE("solo: mix leaves every bit, that of a NaN included") {
  std::vector<float> x{1, -0.0f, std::numeric_limits<float>::quiet_NaN(), 1e-40f};
  const auto before = x;
  const solo reducer;
  CHECK(reducer.scratch<float>(1000) == 0);
  reducer.mix<float, cpu>({nullptr, {x.data(), x.size()}, {}, {}}, {}, {});
  CHECK(same_bits(x, before));
}

TEST_CASE("solo: it describes itself") {
  CHECK(solo{}.describe() == "solo: one rank, nothing is exchanged");
}
