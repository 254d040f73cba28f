// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>

#include <doctest/doctest.h>

#include <cordee/comm/transports/number_range.hpp>

using namespace cordee::detail::comm;

namespace {

/// Of f(n, rank, ranks): whether ranges follow one another, cover n numbers, and begin at whole
/// units.
template <class F>
bool divides(std::size_t n, int ranks, const F& f) {
  std::size_t end = 0;
  for (int k = 0; k < ranks; ++k) {
    const number_range r = f(n, k, ranks);
    if (r.begin != end || r.end < r.begin || r.begin % shard_unit != 0) return false;
    end = r.end;
  }
  return end == n;
}

}  // namespace

TEST_CASE("number_range: ranks' ranges divide any length, at whole units") {
  for (const int ranks : {1, 2, 3, 5, 8})
    for (const std::size_t units : {0u, 1u, 2u, 4u, 5u, 7u, 8u, 9u, 33u})
      for (const std::size_t rest : {0u, 1u, 3u, 63u}) {
        const std::size_t n = units * shard_unit + rest;
        CAPTURE(ranks);
        CAPTURE(n);
        CHECK(divides(n, ranks, balanced_range));
        CHECK(divides(n, ranks, equal_range));
        const std::size_t least = units / static_cast<std::size_t>(ranks) * shard_unit;
        for (int k = 0; k < ranks; ++k) {
          const std::size_t balanced = balanced_range(n, k, ranks).size();
          CHECK(balanced >= least);
          CHECK(balanced <= least + shard_unit + rest);
          const std::size_t equal = equal_range(n, k, ranks).size();
          if (k < ranks - 1) CHECK(equal == least);
          CHECK(equal < least + shard_unit * static_cast<std::size_t>(ranks));
        }
      }
}
