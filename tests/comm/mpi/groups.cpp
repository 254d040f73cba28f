// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Groups of processes, and the reducers that work group by group. Run by mpirun.
#include <doctest/doctest.h>

#include <cordee/comm/all_to_all.hpp>
#include <cordee/comm/butterfly.hpp>
#include <cordee/comm/double_tree.hpp>
#include <cordee/comm/group.hpp>
#include <cordee/comm/hierarchical.hpp>
#include <cordee/comm/hybrid.hpp>
#include <cordee/comm/mpi.hpp>
#include <cordee/comm/nccl/meets.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/torus_ring.hpp>
#include <cordee/testing/transport_laws.hpp>

#include "tests/support/any_exact.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;
using namespace std::chrono_literals;

namespace {

// All ranks, backwards but for the last, whose name the laws look for.
group<mpi> backwards(const mpi& link) {
  const int last = link.size() - 1;
  std::vector<int> ranks;
  for (int r = last - 1; r >= 0; --r) ranks.push_back(r);
  ranks.push_back(last);
  return {link, ranks};
}

int world_size() {
  int n = 0;
  mpi::launch([&](mpi link) { n = link.size(); }, {.deadline = 30s});
  return n;
}

// How many numbers of a mean are wrong, of long messages, which MPI sends only to who awaits them.
template <class R>
int wrong(const R& reducer) {
  constexpr int n = 100'003;
  const int p = reducer.link.size();
  std::vector<float> x(n);
  for (int i = 0; i < n; ++i)
    x[static_cast<std::size_t>(i)] = static_cast<float>(i % 100 + 2 * p * reducer.link.rank());
  std::vector<std::byte> scratch(reducer.template scratch<float>(n));
  reducer.mix(message<float, cpu, 0>{nullptr, {x.data(), n}, {}, {scratch.data(), scratch.size()}},
              moment{}, cpu::stream{});
  int count = 0;
  for (int i = 0; i < n; ++i)
    count += x[static_cast<std::size_t>(i)] != static_cast<float>(i % 100 + p * (p - 1));
  return count;
}

}  // namespace

TEST_CASE("mpi: a group of processes keeps the laws of transports") {
  CHECK(transport_laws(
            [](int, const auto& f, std::chrono::milliseconds deadline) {
              mpi::launch([&](mpi link) { f(backwards(link)); }, {.deadline = deadline});
            },
            {.ranks = {world_size()}, .impatience = 0s}) == "");  // who is silent: tests/comm/group
}

TEST_CASE(
    "mpi: reducers over nodes, a torus, two trees, two methods and in one step keep their laws") {
  const reducer_law_options here{.ranks = {world_size()}};
  const auto launch = [](int, const auto& f, std::chrono::milliseconds deadline) {
    mpi::launch(f, {.deadline = deadline});
  };
  const auto breaches = [&](const auto& make) { return law_breaches<mpi>(make, here, launch); };
  CHECK(breaches([](mpi link) { return hierarchical{link, nodes{2}}; }) == "");
  CHECK(breaches([](mpi link) { return torus_ring{link}; }) == "");
  CHECK(breaches([](mpi link) { return double_tree{link, 1000}; }) == "");
  CHECK(breaches([](mpi link) { return hybrid{butterfly{link}, ring{link}, 2000}; }) == "");
  CHECK(breaches([](mpi link) { return all_to_all{link}; }) == "");
}

TEST_CASE("mpi: ranks of NCCL may meet by a link of processes") {
  static_assert(Meets<by_link<mpi>>);
  mpi::launch(
      [](mpi link) {
        by_link where{link};
        CHECK(where.here() == standing{link.rank(), link.size()});
        const meeting_point at{29'500, 17, {"node1", "10.0.0.1"}};
        if (link.rank() == 0) return where.publish(at);
        for (int twice = 0; twice < 2; ++twice) {
          const auto found = where.find();
          REQUIRE(found.has_value());
          CHECK(found->str() == at.str());
        }
      },
      {.deadline = 30s});
}

TEST_CASE("mpi: means over nodes, over a torus and over two trees are exact") {
  mpi::launch(
      [](mpi link) {
        CHECK(wrong(hierarchical{link, nodes{2}}) == 0);
        CHECK(wrong(torus_ring{link}) == 0);
        CHECK(wrong(double_tree{link, 10'000}) == 0);
        CHECK(wrong(double_tree{backwards(link), 10'000}) == 0);
      },
      {.deadline = 30s});
}

TEST_CASE("mpi: an error names the ranks of the world and the group's") {
  const std::string said = complaint([] {
    mpi::launch(
        [](mpi link) {
          const group both = group_of(link, link.rank() < 2 ? 0 : 1);
          if (link.rank() > 1) return;
          const group turned{both, {1, 0}};
          std::array<std::byte, 8> x{};
          const int peer = 1 - turned.rank();
          const to<cpu> out{peer, {x.data(), link.rank() == 1 ? 8u : 4u}};
          const from<cpu> in{peer, {x.data(), 4}};
          turned.exchange(std::span(&out, 1), std::span(&in, 1), cpu::stream{});
        },
        {.deadline = 30s});
  });
  CHECK(contains(said, "rank 0 expects 4 bytes from rank 1 on lane 0, which sends 8"));
  CHECK(contains(said, "its rank 1 is rank 0, its rank 0 is rank 1"));
}

TEST_CASE("mpi: processes of one machine are one node") {
  mpi::launch([](mpi link) { CHECK(nodes_of(link).sizes == std::vector{link.size()}); },
              {.deadline = 30s});
}
