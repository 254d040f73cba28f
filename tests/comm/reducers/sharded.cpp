// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/halving_doubling.hpp>
#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/sharded.hpp>
#include <cordee/comm/reducers/torus_ring.hpp>
#include <cordee/comm/reducers/tree.hpp>
#include <cordee/comm/reducers/two_shot.hpp>
#include <cordee/testing/same_bits.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

static_assert(ReducerOn<sharded<ring<threads>>, float, cpu>);
static_assert(detail::comm::Shardable<torus_ring<threads>>);
static_assert(!detail::comm::Shardable<tree<threads>> && !detail::comm::Shardable<native<threads>>);

namespace {

float number_of(int rank, std::size_t i) {
  return std::sin(static_cast<float>(i * 7 + static_cast<std::size_t>(rank) * 131 + 1)) *
         (i % 5 == 0 ? 1e3f : 1.0f);
}

struct halves {
  detail::comm::number_range own;
  std::vector<float> mean, gathered, whole;  // own range of the mean; all; the reducer's own mean
};

template <class Make>
auto halves_of(int ranks, std::size_t n, const Make& make) {
  return on_ranks(ranks, [&](threads comm) {
    const auto inside = make(comm);
    const sharded reducer{inside};
    std::vector<float> x(n), whole(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = whole[i] = number_of(comm.rank(), i);
    std::vector<std::byte> scratch(
        std::max(reducer.template scratch<float>(n), inside.template scratch<float>(n)));
    const auto view = [&](std::vector<float>& values) {
      return bucket_view<float, cpu, 0>{
          nullptr, {values.data(), n}, {}, {scratch.data(), scratch.size()}};
    };
    inside.mix(view(whole), step_info{}, cpu::stream{});
    reducer.mix(view(x), step_info{}, cpu::stream{});
    halves h{reducer.own_range(n), {}, {}, whole};
    for (std::size_t i = 0; i < n; ++i)
      if (i >= h.own.begin && i < h.own.end)
        h.mean.push_back(x[i]);
      else
        x[i] = std::numeric_limits<float>::quiet_NaN();  // no half may need it
    reducer.gather(span_on<float, cpu>{x.data(), n}, cpu::stream{});
    h.gathered = x;
    return h;
  });
}

/// Ranks own disjoint ranges of whole units, which are all of it, at most `most(ranks)` of n, and
/// get each other's; with the bits of the reducer inside unless they depend on the chunk.
template <class Make>
void keeps_the_laws(const Make& make, bool same, double (*most)(int)) {
  for (const int ranks : {1, 2, 3, 5, 8})
    for (const std::size_t units : {1, 2, 7, 33}) {
      CAPTURE(ranks);
      CAPTURE(units);
      const std::size_t n = units * 64;
      const auto by_rank = halves_of(ranks, n, make);
      std::vector<int> owners(n);
      for (const halves& h : by_rank) {
        CHECK((h.own.begin % 64 == 0 && h.own.end % 64 == 0 && h.own.end <= n));
        CHECK(static_cast<double>(h.own.size()) <= most(ranks) * static_cast<double>(n) + 64);
        for (std::size_t i = h.own.begin; i < h.own.end; ++i) ++owners[i];
        CHECK(same_bits(h.mean, std::vector<float>(
                                    h.gathered.begin() + static_cast<std::ptrdiff_t>(h.own.begin),
                                    h.gathered.begin() + static_cast<std::ptrdiff_t>(h.own.end))));
        CHECK(same_bits(h.gathered, by_rank[0].gathered));
        if (same) CHECK(same_bits(h.gathered, h.whole));
        // each of p sums of numbers up to 1000 rounds, in either order
        for (std::size_t i = 0; i < n; ++i)
          CHECK(std::abs(h.gathered[i] - h.whole[i]) <=
                1e3f * static_cast<float>(ranks) * std::numeric_limits<float>::epsilon());
      }
      CHECK(owners == std::vector<int>(n, 1));
    }
}

double even(int ranks) { return 1.0 / ranks; }
double by_power_of_two(int ranks) { return 1.0 / (ranks == 3 ? 2 : ranks == 5 ? 4 : ranks); }

}  // namespace

TEST_CASE("sharded leaves each rank its range of the mean, and gathers all of them") {
  keeps_the_laws([](threads comm) { return ring{comm}; }, false, even);
  keeps_the_laws([](threads comm) { return torus_ring{comm}; }, false, even);
}

TEST_CASE("sharded has the bits of the mean where sums do not depend on the cut") {
  keeps_the_laws([](threads comm) { return two_shot{comm}; }, true, even);
  keeps_the_laws([](threads comm) { return halving_doubling{comm}; }, true, by_power_of_two);
}

TEST_CASE("sharded describes itself") {
  on_ranks(2, [](threads comm) {
    CHECK(sharded{ring{comm}}.describe() ==
          "ring over 2 ranks: exact mean; optimizer state sharded over 2 ranks");
    return 0;
  });
}
