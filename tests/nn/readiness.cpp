// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/readiness.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("readiness: segments pass in descending order, as soon as all behind them are ready") {
  constexpr segment table[]{{.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}};
  cordee::detail::nn::readiness state;
  std::vector<std::size_t> passed;
  const std::function<void(std::size_t)> pass = [&](std::size_t k) { passed.push_back(k); };
  using list = std::vector<std::size_t>;
  for (int again = 0; again < 2; ++again) {
    passed.clear();
    state.begin(3);  // "d" is a statistic
    CHECK(!state.any());
    state.set(0, table, pass);
    CHECK(state.any());
    CHECK(passed.empty());
    state.set(2, table, pass);
    CHECK(passed == list{2});
    CHECK(contains(error_message([&] { state.expect_all(table); }), "without ready(\"b\")"));
    CHECK(contains(error_message([&] { state.set(2, table, pass); }), "ready(\"c\") was called"));
    CHECK(contains(error_message([&] { state.set(3, table, pass); }), "ready(\"d\") is of a"));
    state.set(1, table, pass);
    CHECK(passed == list{2, 1, 0});
    state.expect_all(table);
  }
}
