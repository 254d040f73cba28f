// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Subgroups of processes, and the reducers that use them. Run by mpirun.
#include <doctest/doctest.h>

#include <cordee/comm/reducers/butterfly.hpp>
#include <cordee/comm/reducers/double_tree.hpp>
#include <cordee/comm/reducers/hierarchical.hpp>
#include <cordee/comm/reducers/hybrid.hpp>
#include <cordee/comm/reducers/one_shot.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/torus_ring.hpp>
#include <cordee/comm/reducers/two_shot.hpp>
#include <cordee/comm/subgroup.hpp>
#include <cordee/comm/transports/bootstrap/rendezvous.hpp>
#include <cordee/comm/transports/mpi.hpp>
#include <cordee/testing/transport_laws.hpp>

#include "tests/support/any_exact.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;
using namespace std::chrono_literals;

namespace {

// All ranks, in reverse order but for the last, whose name the laws look for.
subgroup<mpi> reversed(const mpi& comm) {
  const int last = comm.size() - 1;
  std::vector<int> ranks;
  for (int r = last - 1; r >= 0; --r) ranks.push_back(r);
  ranks.push_back(last);
  return {comm, ranks};
}

int world_size() {
  int n = 0;
  mpi::launch([&](mpi comm) { n = comm.size(); }, {.deadline = 30s});
  return n;
}

// The number of wrong elements of a mean over long messages, which MPI sends by rendezvous.
template <class R>
int count_wrong(const R& reducer) {
  constexpr int n = 100'003;
  const int p = reducer.comm.size();
  std::vector<float> x(n);
  for (int i = 0; i < n; ++i)
    x[static_cast<std::size_t>(i)] = static_cast<float>(i % 100 + 2 * p * reducer.comm.rank());
  std::vector<std::byte> scratch(reducer.template scratch<float>(n));
  reducer.mix(
      bucket_view<float, cpu, 0>{nullptr, {x.data(), n}, {}, {scratch.data(), scratch.size()}},
      step_info{}, cpu::stream{});
  int count = 0;
  for (int i = 0; i < n; ++i)
    count += x[static_cast<std::size_t>(i)] != static_cast<float>(i % 100 + p * (p - 1));
  return count;
}

}  // namespace

TEST_CASE("mpi: a subgroup of processes keeps the laws of transports") {
  CHECK(transport_laws(
            [](int, const auto& f, std::chrono::milliseconds deadline) {
              mpi::launch([&](mpi comm) { f(reversed(comm)); }, {.deadline = deadline});
            },
            {.ranks = {world_size()}, .impatience = 0s}) == "");  // stalls: tests/comm/subgroup.cpp
}

TEST_CASE("mpi: hierarchical, torus, double tree, hybrid and all-to-all reducers keep their laws") {
  const reducer_law_options options{.ranks = {world_size()}};
  const auto launch = [](int, const auto& f, std::chrono::milliseconds deadline) {
    mpi::launch(f, {.deadline = deadline});
  };
  const auto violations = [&](const auto& make) {
    return reducer_violations<mpi>(make, options, launch);
  };
  CHECK(violations([](mpi comm) { return hierarchical{comm, nodes{2}}; }) == "");
  CHECK(violations([](mpi comm) { return torus_ring{comm}; }) == "");
  CHECK(violations([](mpi comm) { return double_tree{comm, 1000}; }) == "");
  CHECK(violations([](mpi comm) { return hybrid{butterfly{comm}, ring{comm}, 2000}; }) == "");
  CHECK(violations([](mpi comm) { return one_shot{comm}; }) == "");
  CHECK(violations([](mpi comm) { return two_shot{comm}; }) == "");
}

TEST_CASE("mpi: a communicator of processes is a rendezvous for NCCL") {
  static_assert(Rendezvous<rendezvous_comm<mpi>>);
  mpi::launch(
      [](mpi comm) {
        rendezvous_comm rendezvous{comm};
        CHECK(rendezvous.assignment() == rank_assignment{comm.rank(), comm.size()});
        const bootstrap_address address{29'500, std::string(32, 'a'), {"node1", "10.0.0.1"}};
        if (comm.rank() == 0) return rendezvous.publish(address);
        for (int k = 0; k < 2; ++k) {
          const auto found = rendezvous.find();
          REQUIRE(found.has_value());
          CHECK(found->serialize() == address.serialize());
        }
      },
      {.deadline = 30s});
}

TEST_CASE("mpi: hierarchical, torus and double tree means are exact") {
  mpi::launch(
      [](mpi comm) {
        CHECK(count_wrong(hierarchical{comm, nodes{2}}) == 0);
        CHECK(count_wrong(torus_ring{comm}) == 0);
        CHECK(count_wrong(double_tree{comm, 10'000}) == 0);
        CHECK(count_wrong(double_tree{reversed(comm), 10'000}) == 0);
      },
      {.deadline = 30s});
}

TEST_CASE("mpi: an error of a subgroup names the ranks of the run and the subgroup's") {
  const std::string message = error_message([] {
    mpi::launch(
        [](mpi comm) {
          const subgroup both = subgroup_of(comm, comm.rank() < 2 ? 0 : 1);
          if (comm.rank() > 1) return;
          const subgroup turned{both, {1, 0}};
          std::array<std::byte, 8> x{};
          const int peer = 1 - turned.rank();
          const send_op<cpu> out{peer, {x.data(), comm.rank() == 1 ? 8u : 4u}};
          const recv_op<cpu> in{peer, {x.data(), 4}};
          turned.exchange(std::span(&out, 1), std::span(&in, 1), cpu::stream{});
        },
        {.deadline = 30s});
  });
  CHECK(contains(message, "rank 0 expects 4 bytes from rank 1 on context 0, which sends 8"));
  CHECK(contains(message, "its rank 1 is rank 0, its rank 0 is rank 1"));
}

TEST_CASE("mpi: processes on one host are one node") {
  mpi::launch([](mpi comm) { CHECK(nodes::by_host(comm).sizes == std::vector{comm.size()}); },
              {.deadline = 30s});
}
