// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/nccl/vigil.hpp>

using namespace std::chrono_literals;
using cordee::detail::vigil;

namespace {
constexpr vigil::time start{5h};
}  // namespace

TEST_CASE("vigil: its time counts from where it began last, its looks do not") {
  vigil v(start);
  CHECK(v.lasts(start + 30ms) == 30ms);
  v.begin(start + 80ms);
  CHECK(v.lasts(start + 90ms) == 10ms);
  CHECK_FALSE(v.looks(start + 100ms));
  CHECK(v.looks(start + 101ms));
  CHECK_FALSE(v.looks(start + 201ms));
  CHECK(v.looks(start + 202ms));
}

TEST_CASE("vigil: who is gone has a second for its last words, from when that was first seen") {
  vigil v(start);
  CHECK_FALSE(v.is_in_vain(false, start + 5s));
  CHECK_FALSE(v.is_in_vain(true, start + 6s));
  CHECK_FALSE(v.is_in_vain(true, start + 7s));
  CHECK_FALSE(v.is_in_vain(false, start + 8s));  // it is waited for no longer
  CHECK(v.is_in_vain(true, start + 7s + 1ms));
}
