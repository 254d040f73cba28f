// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/schedule/exponential.hpp>

#include "tests/support/relative.hpp"

using namespace cordee;
using support::relative;

TEST_CASE("exponential: PyTorch's values at whole epochs, and a geometric mean between two") {
  // tests/support/schedule_goldens.py
  constexpr std::array golden{0.8, 0.72, 0.648, 0.5832, 0.52488};
  const exponential s{.learning_rate = 0.8, .factor = 0.9};
  for (std::size_t e = 0; e < golden.size(); ++e)
    CHECK(s(static_cast<double>(e)) == relative(golden[e], 1e-13));
  for (double e = 0.5; e < 90; e += 1)
    CHECK(s(e) == relative(std::sqrt(s(e - 0.5) * s(e + 0.5)), 1e-14));
}

TEST_CASE("exponential: describes itself, and refuses a factor that is none of a decay") {
  CHECK(exponential{.learning_rate = 0.8, .factor = 0.9}.describe() ==
        "exponential from 0.8, times 0.9 an epoch");
  for (const double factor : {0.0, -0.5, 1.5, std::nan("")})
    CHECK_THROWS_WITH_AS(exponential{.factor = factor}(0),
                         doctest::Contains("exponential: .factor must be above 0 and at most 1"),
                         usage_error);
}
