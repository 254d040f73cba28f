// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include <doctest/doctest.h>

#include <cordee/precision/fp64.hpp>

using namespace cordee;

TEST_CASE("fp64: storage, sums and masters are double") {
  static_assert(std::is_same_v<fp64::storage, double> && std::is_same_v<fp64::accumulate, double>);
  static_assert(std::is_same_v<fp64::master, double>);
  CHECK(fp64::name == "fp64");
}
