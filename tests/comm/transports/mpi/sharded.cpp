// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The halves of reducers over processes. Run by mpirun.
#include <chrono>
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/halving_doubling.hpp>
#include <cordee/comm/reducers/hybrid.hpp>
#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/two_shot.hpp>
#include <cordee/comm/transports/mpi.hpp>
#include <cordee/testing/shard_laws.hpp>

using namespace cordee;

// MPI's own reduce-scatter is not called: docs/policies/reducers.md.
static_assert(!detail::comm::Shardable<native<mpi>>);

namespace {

template <class Make>
std::string sharded_over_processes(const Make& make, shard_law_options options = {}) {
  const auto launch_processes = [](int, const auto& f, std::chrono::milliseconds deadline) {
    mpi::launch(f, {.deadline = deadline});
  };
  mpi::launch([&](mpi comm) { options.ranks = {comm.size()}; });
  return shard_laws<mpi>(make, options, launch_processes);
}

}  // namespace

TEST_CASE("mpi: sharded keeps the laws over processes") {
  CHECK(sharded_over_processes([](mpi comm) { return ring{comm}; }) == "");
  CHECK(sharded_over_processes([](mpi comm) { return two_shot{comm}; }, {.same_bits = true}) == "");
  CHECK(sharded_over_processes([](mpi comm) { return halving_doubling{comm}; },
                               {.same_bits = true}) == "");
  CHECK(sharded_over_processes([](mpi comm) {
          return hybrid{two_shot{comm}, ring{comm}, 448};
        }) == "");
}
