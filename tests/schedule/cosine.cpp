// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/schedule/cosine.hpp>

#include "tests/support/relative.hpp"

using namespace cordee;
using support::relative;

namespace {
constexpr double ulp = 0x1p-52;  // unit in the last place of 1
}  // namespace

TEST_CASE("cosine: the golden curve of ten steps") {  // docs/mathematics.md, 7.6
  constexpr std::array golden{1.0, 0.975528258148, 0.904508497187, 0.793892626146,  0.654508497187,
                              0.5, 0.345491502813, 0.206107373854, 0.0954915028125, 0.0244717418524,
                              0.0};
  const cosine s{.peak = 1, .epochs = 10};
  for (std::size_t e = 0; e < golden.size(); ++e)
    CHECK(std::abs(s(static_cast<double>(e)) - golden[e]) < 1e-12);
}

TEST_CASE("cosine: symmetric about its middle, and constant at the floor afterwards") {
  const cosine s{.peak = 2, .epochs = 30, .floor = 0.5};
  for (int e = 0; e <= 30; ++e) {
    // Either cosine has an error of some units of 1, times (peak - floor) / 2.
    CHECK(s(e) + s(30 - e) == relative(2.5, 4 * ulp));
  }
  CHECK(s(30) == 0.5);
  CHECK(s(31) == 0.5);
  CHECK_THROWS_AS(cosine{.peak = 1}(0), usage_error);
  CHECK(s.describe() == "cosine from 2 to 0.5 over 30 epochs");
}
