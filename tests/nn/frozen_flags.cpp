// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

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
  CHECK_THROWS_AS(first_of({1, 1}), usage_error);
  CHECK(first_of({}) == 0);
  CHECK(flags.data() == nullptr);
}
