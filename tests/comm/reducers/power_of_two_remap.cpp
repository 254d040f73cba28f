// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/power_of_two_remap.hpp>
#include <cordee/core/concat.hpp>

#include "tests/support/formulas.hpp"

using namespace cordee;
using namespace support;
using detail::comm::power_of_two_remap;

namespace {

// Records the calls of a method.
struct recording_wire {
  std::string calls;

  void add(int next, chunk_range, int previous, chunk_range) { record("add", next, previous); }
  void pass(int next, chunk_range, int previous, chunk_range) { record("pass", next, previous); }
  void flush() { calls += "flush"; }

 private:
  void record(const char* call, int next, int previous) {
    calls += concat(call, " to ", next, " from ", previous, "; ");
  }
};

std::string calls_of(power_of_two_remap remap) {
  recording_wire wire;
  remap.run(wire, {0, 1}, [&] { wire.calls += concat("index ", remap.index(), "; "); });
  return wire.calls;
}

}  // namespace

TEST_CASE("power_of_two_remap: p' ranks run the method, under indices that map back to them") {
  for (int p = 1; p <= 33; ++p) {
    CAPTURE(p);
    std::set<int> indices;
    int idle = 0;
    for (int r = 0; r < p; ++r) {
      const power_of_two_remap remap{r, p};
      CHECK(remap.ranks() == power_below(p));
      CHECK(remap.is_paired() == (r < 2 * (p - power_below(p))));
      if (remap.is_idle()) {
        ++idle;
        CHECK(power_of_two_remap{r + 1, p}.is_paired());
        CHECK_FALSE(power_of_two_remap{r + 1, p}.is_idle());
        continue;
      }
      CHECK(remap.rank_of(remap.index()) == r);
      CHECK((remap.index() >= 0 && remap.index() < remap.ranks()));
      indices.insert(remap.index());
    }
    CHECK(idle == p - power_below(p));
    CHECK(indices.size() == to_size(power_below(p)));
  }
}

TEST_CASE("power_of_two_remap: of six ranks, 0 and 2 send theirs to 1 and 3 and receive the mean") {
  CHECK(calls_of({0, 6}) == "add to 1 from -1; pass to -1 from 1; flush");
  CHECK(calls_of({1, 6}) == "add to -1 from 0; index 0; pass to 0 from -1; flush");
  CHECK(calls_of({2, 6}) == "add to 3 from -1; pass to -1 from 3; flush");
  CHECK(calls_of({3, 6}) == "add to -1 from 2; index 1; pass to 2 from -1; flush");
  CHECK(calls_of({4, 6}) == "index 2; flush");
  CHECK(calls_of({5, 6}) == "index 3; flush");
}

TEST_CASE("power_of_two_remap: a power of two needs no hops of its own") {
  for (const int p : {1, 2, 4, 8})
    for (int r = 0; r < p; ++r) CHECK(calls_of({r, p}) == concat("index ", r, "; flush"));
}
