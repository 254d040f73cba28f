// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include <doctest/doctest.h>

#include <cordee/precision/fp32.hpp>

using namespace cordee;

TEST_CASE("fp32: storage, sums and masters are float") {
  static_assert(std::is_same_v<fp32::storage, float> && std::is_same_v<fp32::accumulate, float>);
  static_assert(std::is_same_v<fp32::master, float>);
  CHECK(fp32::name == "fp32");
}
