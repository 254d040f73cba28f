// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/arena.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/nn/frozen_flags.hpp>

using namespace cordee;

TEST_CASE("frozen_flags: none, or one for each tensor; the first that is not frozen") {
  detail::nn::frozen_flags flags;
  CHECK(flags.data() == nullptr);
  CHECK(flags.first_unfrozen() == 0);
  const auto first_of = [&](const std::vector<std::uint8_t>& x) {
    flags.set(x, 3);
    return flags.first_unfrozen();
  };
  CHECK(first_of({0, 1, 0}) == 0);
  CHECK(first_of({1, 1, 0}) == 2);
  CHECK((flags.data()[0] == 1 && flags.data()[1] == 1 && flags.data()[2] == 0));
  CHECK(first_of({1, 1, 1}) == 3);
  std::vector<segment> table(3);
  for (std::size_t k = 0; k < 3; ++k) table[k].offset = 64 * k, table[k].size = 60;
  std::vector<float> numbers(64);
  const detail::device::plane_part<float, cpu> second{{numbers.data(), 64}, 64};
  first_of({1, 0, 1});
  CHECK(flags.covers(table, second));
  first_of({1, 0, 0});
  CHECK_FALSE(flags.covers(table, second));
  CHECK_THROWS_AS(first_of({1, 1}), usage_error);
  CHECK(first_of({}) == 0);
  CHECK(flags.data() == nullptr);
  CHECK_FALSE(flags.covers(table, second));
}
