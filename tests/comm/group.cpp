// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <stdexcept>

#include <doctest/doctest.h>

#include <cordee/comm/group.hpp>
#include <cordee/comm/native.hpp>
#include <cordee/comm/solo.hpp>
#include <cordee/testing/counted.hpp>
#include <cordee/testing/reducer_laws.hpp>
#include <cordee/testing/transport_laws.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;
using namespace std::chrono_literals;

static_assert(TransportOn<group<threads>, cpu> && !TransportOn<group<threads>, int>);
static_assert(AddsOn<group<threads>, float, cpu> && !AddsOn<group<counted<threads>>, float, cpu>);
static_assert(Abandons<group<threads>> && Abandons<group<group<threads>>> &&
              !Abandons<group<alone>>);
static_assert(NativeMeanOn<threads, float, cpu> && !NativeMeanOn<group<threads>, float, cpu>,
              "a transport means over all of its ranks");
static_assert(!ReducerOn<native<group<threads>>, float, cpu>);

namespace {

// A group of `ranks`, backwards but for its last, who has the same number in both: laws look for
// the name of that one. Rank 0 of the link is not of it.
template <class F>
void launch_group(int ranks, const F& f, std::chrono::milliseconds deadline) {
  std::vector<int> members{ranks};
  for (int k = 1; k < ranks; ++k) members.push_back(k == ranks - 1 ? k : ranks - 1 - k);
  threads::launch(ranks + 1,
                  [&](threads link) {
                    if (link.rank() != 0) f(group{link, members});
                  },
                  {.deadline = deadline});
}
constexpr auto launch = [](int ranks, const auto& f, std::chrono::milliseconds deadline) {
  launch_group(ranks, f, deadline);
};

// Number 0 tells number 1 so many bytes; number 1 hears four.
template <class Link>
void tell_next(const Link& link, std::size_t size) {
  std::array<std::byte, 8> x{};
  const to<cpu> out{1, {x.data(), size}};
  const from<cpu> in{0, {x.data(), 4}};
  if (link.rank() == 0) link.exchange(std::span(&out, 1), std::span<const from<cpu>>{}, {});
  if (link.rank() == 1) link.exchange(std::span<const to<cpu>>{}, std::span(&in, 1), {});
}

template <class Link>
double sum_of_ranks(const Link& link, double mine) {
  std::array all{mine};
  agree(link, all, sum{});
  return all[0];
}

}  // namespace

TEST_CASE("a group keeps the laws of transports") {
  CHECK(transport_laws(launch, {.ranks = {1, 2, 3, 5}, .impatience = 1s}) == "");
}

TEST_CASE("a group is a link to a reducer") {
  CHECK(reducer_laws<group<threads>>([](auto link) { return ring{link}; }, {.ranks = {3}},
                                     launch) == "");
}

TEST_CASE("a group: an error names the link's ranks and the group's, and what it was all for") {
  const std::string said = complaint([] {
    threads::launch(4, [](threads link) {
      const auto words = [] { return "bucket 7"; };
      const errand outer(words);
      if (link.rank() % 2 == 1) tell_next(group{link, {3, 1}}, 8);
    });
  });
  CHECK(contains(said, "rank 1 expects 4 bytes from rank 3 on lane 0, which sends 8"));
  CHECK(contains(said, "(in a group: its rank 1 is rank 1, its rank 0 is rank 3 (bucket 7))"));
}

TEST_CASE("a group of a group names the ranks of both") {
  const std::string said = complaint([] {
    threads::launch(5, [](threads link) {
      if (link.rank() == 0) return;
      const group outer{link, {4, 3, 2, 1}};
      if (outer.rank() >= 2) return;
      const group inner{outer, {1, 0}};
      CHECK(rank_in_run(inner, 0) == 3);
      CHECK(rank_in_run(link, 2) == 2);
      tell_next(inner, 8);
    });
  });
  CHECK(contains(said, "rank 4 expects 4 bytes from rank 3 on lane 0, which sends 8"));
  CHECK(contains(said,
                 "(in a group: its rank 0 is rank 4, its rank 1 is rank 3 "
                 "(in a group: its rank 1 is rank 0, its rank 0 is rank 1))"));
}

TEST_CASE("ranks of one colour are a group, and groups do not hear each other") {
  for (const int ranks : {1, 2, 5, 8}) {
    const auto sums = on_ranks(ranks, [&](threads link) {
      const group mine = group_of(link, link.rank() % 3);
      CHECK(mine.rank_of(mine.rank()) == link.rank());
      CHECK(mine.lane(2).rank() == mine.rank());
      return sum_of_ranks(mine, link.rank()) + 1000 * sum_of_ranks(link, link.rank());
    });
    for (int r = 0; r < ranks; ++r) {
      int own = 0, all = 0;
      for (int k = 0; k < ranks; ++k) {
        own += k % 3 == r % 3 ? k : 0;
        all += k;
      }
      CHECK(sums[static_cast<std::size_t>(r)] == own + 1000 * all);
    }
  }
}

TEST_CASE("a group that gives up ends the run, for those outside too") {
  const std::string said = complaint([] {
    threads::launch(
        3,
        [](threads link) {
          if (link.rank() == 0) group{link, {1, 0}}.abandon("the sensor fell off");
          if (link.rank() == 2) tell_next(group{link, {0, 2}}, 4);
        },
        patient);
  });
  CHECK(said == "rank 0: the sensor fell off");
}

TEST_CASE("a group: misuse is refused") {
  on_ranks(3, [](threads link) {
    CHECK_THROWS_AS((group{link, {0, 1, 2, 3}}), misuse);
    CHECK_THROWS_AS((group{link, {-1, 0, 1, 2}}), misuse);
    CHECK_THROWS_AS((group{link, {0, 1, 2, 0}}), misuse);
    CHECK_THROWS_AS((group{link, {(link.rank() + 1) % 3}}), misuse);
    const group all{link, {2, 0, 1}};
    CHECK_THROWS_AS((void)all.rank_of(3), misuse);
    CHECK_THROWS_AS((void)all.rank_of(-1), misuse);
    const from<cpu> nowhere{3, {}};
    CHECK_THROWS_AS(all.exchange(std::span<const to<cpu>>{}, std::span(&nowhere, 1), {}), misuse);
    return 0;
  });
}
