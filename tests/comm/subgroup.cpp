// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <stdexcept>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/comm/subgroup.hpp>
#include <cordee/testing/counting_communicator.hpp>
#include <cordee/testing/reducer_laws.hpp>
#include <cordee/testing/transport_laws.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;
using namespace std::chrono_literals;

static_assert(TransportOn<subgroup<threads>, cpu> && !TransportOn<subgroup<threads>, int>);
static_assert(FusedAddOn<subgroup<threads>, float, cpu> &&
              !FusedAddOn<subgroup<counting_communicator<threads>>, float, cpu>);
static_assert(Abortable<subgroup<threads>> && Abortable<subgroup<subgroup<threads>>> &&
              !Abortable<subgroup<self_comm>>);
static_assert(NativeMeanOn<threads, float, cpu> && !NativeMeanOn<subgroup<threads>, float, cpu>,
              "a native mean is over all ranks of the transport");
static_assert(!ReducerOn<native<subgroup<threads>>, float, cpu>);

namespace {

// A subgroup of `ranks`, in reverse order but for the last, whose number is the same in both: laws
// look for its name. Rank 0 of the parent is no member.
template <class F>
void launch_subgroup(int ranks, const F& f, std::chrono::milliseconds deadline) {
  std::vector<int> members{ranks};
  for (int k = 1; k < ranks; ++k) members.push_back(k == ranks - 1 ? k : ranks - 1 - k);
  threads::launch(ranks + 1,
                  [&](threads comm) {
                    if (comm.rank() != 0) f(subgroup{comm, members});
                  },
                  {.deadline = deadline});
}
constexpr auto launch = [](int ranks, const auto& f, std::chrono::milliseconds deadline) {
  launch_subgroup(ranks, f, deadline);
};

// Rank 0 sends so many bytes to rank 1, which expects four.
template <class Communicator>
void send_to_next(const Communicator& comm, std::size_t size) {
  std::array<std::byte, 8> x{};
  const send_op<cpu> out{1, {x.data(), size}};
  const recv_op<cpu> in{0, {x.data(), 4}};
  if (comm.rank() == 0) comm.exchange(std::span(&out, 1), std::span<const recv_op<cpu>>{}, {});
  if (comm.rank() == 1) comm.exchange(std::span<const send_op<cpu>>{}, std::span(&in, 1), {});
}

template <class Communicator>
double sum_of_ranks(const Communicator& comm, double x) {
  std::array value{x};
  allreduce_host(comm, value, reduce_op::sum);
  return value[0];
}

}  // namespace

TEST_CASE("subgroup: it keeps the laws of transports") {
  CHECK(transport_laws(launch, {.ranks = {1, 2, 3, 5}, .impatience = 1s}) == "");
}

TEST_CASE("subgroup: a reducer over it keeps the laws of reducers") {
  CHECK(reducer_laws<subgroup<threads>>([](auto comm) { return ring{comm}; }, {.ranks = {3}},
                                        launch) == "");
}

TEST_CASE("subgroup: an error names the parent's ranks and its own, and the outer error context") {
  const std::string message = error_message([] {
    threads::launch(4, [](threads comm) {
      const auto describe = [] { return "bucket 7"; };
      const detail::comm::error_context outer(describe);
      if (comm.rank() % 2 == 1) send_to_next(subgroup{comm, {3, 1}}, 8);
    });
  });
  CHECK(contains(message, "rank 1 expects 4 bytes from rank 3 on context 0, which sends 8"));
  CHECK(
      contains(message, "(in a subgroup: its rank 1 is rank 1, its rank 0 is rank 3 (bucket 7))"));
}

TEST_CASE("subgroup: an error of a subgroup of a subgroup names the ranks of all three") {
  const std::string message = error_message([] {
    threads::launch(5, [](threads comm) {
      if (comm.rank() == 0) return;
      const subgroup outer{comm, {4, 3, 2, 1}};
      if (outer.rank() >= 2) return;
      const subgroup inner{outer, {1, 0}};
      CHECK(world_rank(inner, 0) == 3);
      CHECK(world_rank(comm, 2) == 2);
      send_to_next(inner, 8);
    });
  });
  CHECK(contains(message, "rank 4 expects 4 bytes from rank 3 on context 0, which sends 8"));
  CHECK(contains(message,
                 "(in a subgroup: its rank 0 is rank 4, its rank 1 is rank 3 "
                 "(in a subgroup: its rank 1 is rank 0, its rank 0 is rank 1))"));
}

TEST_CASE("subgroup_of: ranks of one color are a subgroup, and subgroups do not interfere") {
  for (const int ranks : {1, 2, 5, 8}) {
    const auto sums = on_ranks(ranks, [&](threads comm) {
      const subgroup own = subgroup_of(comm, comm.rank() % 3);
      CHECK(own.parent_rank(own.rank()) == comm.rank());
      CHECK(own.duplicate(2).rank() == own.rank());
      return sum_of_ranks(own, comm.rank()) + 1000 * sum_of_ranks(comm, comm.rank());
    });
    for (int r = 0; r < ranks; ++r) {
      int color_sum = 0, total = 0;
      for (int k = 0; k < ranks; ++k) {
        color_sum += k % 3 == r % 3 ? k : 0;
        total += k;
      }
      CHECK(sums[static_cast<std::size_t>(r)] == color_sum + 1000 * total);
    }
  }
}

TEST_CASE("subgroup: abort ends the run, also of ranks outside") {
  const std::string message = error_message([] {
    threads::launch(
        3,
        [](threads comm) {
          if (comm.rank() == 0) subgroup{comm, {1, 0}}.abort("sensor failure");
          if (comm.rank() == 2) send_to_next(subgroup{comm, {0, 2}}, 4);
        },
        long_deadline);
  });
  CHECK(message == "rank 0: sensor failure");
}

TEST_CASE("subgroup: invalid ranks are usage errors") {
  on_ranks(3, [](threads comm) {
    CHECK_THROWS_AS((subgroup{comm, {0, 1, 2, 3}}), usage_error);
    CHECK_THROWS_AS((subgroup{comm, {-1, 0, 1, 2}}), usage_error);
    CHECK_THROWS_AS((subgroup{comm, {0, 1, 2, 0}}), usage_error);
    CHECK_THROWS_AS((subgroup{comm, {(comm.rank() + 1) % 3}}), usage_error);
    const subgroup all{comm, {2, 0, 1}};
    CHECK_THROWS_AS((void)all.parent_rank(3), usage_error);
    CHECK_THROWS_AS((void)all.parent_rank(-1), usage_error);
    const recv_op<cpu> invalid{3, {}};
    CHECK_THROWS_AS(all.exchange(std::span<const send_op<cpu>>{}, std::span(&invalid, 1), {}),
                    usage_error);
    return 0;
  });
}
