// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/nn/capture_key.hpp>
#include <cordee/nn/cross_entropy.hpp>

using namespace cordee;

TEST_CASE("capture_key: passes that differ in any part differ") {
  using key = detail::nn::capture_key<cross_entropy>;
  const key one{1, {}, 0, false, false};
  CHECK(one == key{1, {}, 0, false, false});
  CHECK(one != key{2, {}, 0, false, false});
  CHECK(one != key{1, {.label_smoothing = 0.1}, 0, false, false});
  CHECK(one != key{1, {}, 0.5, false, false});
  CHECK(one != key{1, {}, 0, true, false});
  CHECK(one != key{1, {}, 0, false, true});
}
