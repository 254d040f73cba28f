// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <doctest/doctest.h>

#include <cordee/schedule/cosine.hpp>

using namespace cordee;

TEST_CASE("cosine: the golden curve of ten steps") {  // algorithms 8
  constexpr std::array golden{1.0, 0.975528258148, 0.904508497187, 0.793892626146,  0.654508497187,
                              0.5, 0.345491502813, 0.206107373854, 0.0954915028125, 0.0244717418524,
                              0.0};
  const cosine s{.peak = 1, .epochs = 10};
  for (std::size_t e = 0; e < golden.size(); ++e)
    CHECK(std::abs(s(static_cast<double>(e)) - golden[e]) < 1e-12);
}

TEST_CASE("cosine: symmetric about its middle, and at the floor for ever after") {
  const cosine s{.peak = 2, .epochs = 30, .floor = 0.5};
  for (int e = 0; e <= 30; ++e) CHECK(s(e) + s(30 - e) == doctest::Approx(2.5).epsilon(1e-14));
  CHECK(s(30) == 0.5);
  CHECK(s(31) == 0.5);
  CHECK_THROWS_AS(cosine{.peak = 1}(0), misuse);
  CHECK(s.describe() == "cosine from 2 to 0.5 over 30 epochs");
}
