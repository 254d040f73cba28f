// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/failure.hpp>

using cordee::detail::failure;

TEST_CASE("failure: the first cause counts, and whoever fails after it is not heard") {
  failure f(3);
  CHECK_FALSE(f.happened());
  CHECK(f.note(2, "out of rope"));
  CHECK_FALSE(f.note(0, "an echo", true));
  CHECK(f.happened());
  CHECK_FALSE(f.stalled());
  CHECK(f.culprit() == 2);
  CHECK(f.cause() == "rank 2: out of rope");
}

TEST_CASE("failure: after a stall every rank has a line, after a throw none") {
  for (const bool stalled : {false, true}) {
    failure f(4);
    f.report(1, "had waited 30 ms for rank 2");
    f.note(1, "waited for rank 2", stalled);
    f.report(0, "had waited 20 ms for rank 1");
    f.report(0, "had waited 20 ms for rank 1");
    f.report(0, "its server for rank 2");
    CHECK(f.report(0) == "had waited 20 ms for rank 1; its server for rank 2");
    CHECK(f.in_full() == (stalled ? "rank 1: waited for rank 2"
                                    "\n  rank 0 had waited 20 ms for rank 1; its server for rank 2"
                                    "\n  rank 1 had waited 30 ms for rank 2"
                                    "\n  rank 2 told of no exchange"
                                    "\n  rank 3 told of no exchange"
                                  : "rank 1: waited for rank 2"));
  }
}
