// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/reducers/native.hpp>
#include <cordee/testing/reducer_laws.hpp>

using namespace cordee;

TEST_CASE("native keeps the laws of an exact reducer") {
  CHECK(reducer_laws([](auto comm) { return native{comm}; }) == "");
}

TEST_CASE(
    "native needs no scratch, describes itself, and is no reducer over a transport without a "
    "mean") {
  static_assert(ReducerOn<native<threads>, float, cpu>);
  static_assert(!ReducerOn<native<counting_communicator<threads>>, float, cpu>);
  threads::launch(3, [](threads comm) {
    CHECK(native{comm}.scratch<float>(1000) == 0);
    CHECK(native{comm}.describe() == "the transport's own mean over 3 ranks: exact mean");
  });
}
