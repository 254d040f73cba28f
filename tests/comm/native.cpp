// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/native.hpp>
#include <cordee/testing/reducer_laws.hpp>

using namespace cordee;

TEST_CASE("native keeps the laws") {
  CHECK(reducer_laws([](auto link) { return native{link}; }) == "");
}

TEST_CASE("native needs no scratch and says what it is; a transport without a mean has none") {
  static_assert(ReducerOn<native<threads>, float, cpu>);
  static_assert(!ReducerOn<native<counted<threads>>, float, cpu>);
  threads::launch(3, [](threads link) {
    CHECK(native{link}.scratch<float>(1000) == 0);
    CHECK(native{link}.describe() == "the transport's own mean over 3 ranks: exact mean");
  });
}
