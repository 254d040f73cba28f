// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/transports/launcher_environment.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using support::error_message, support::contains;

namespace {

using variables = std::map<std::string, std::string>;

std::optional<rank_assignment> assignment(const variables& set) {
  return detail::comm::rank_from_environment([&](const char* name) {
    const auto at = set.find(name);
    return at == set.end() ? nullptr : at->second.c_str();
  });
}

const variables torchrun{{"RANK", "2"}, {"WORLD_SIZE", "4"}};
const variables open_mpi{{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}};
const variables mpich{{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}};
const variables mvapich{{"MV2_COMM_WORLD_RANK", "2"}, {"MV2_COMM_WORLD_SIZE", "4"}};
const variables slurm{{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}};

variables both(variables a, const variables& b) {
  a.insert(b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("launcher_environment: the variables of every known launcher are read") {
  for (const variables& set : {torchrun, open_mpi, mpich, mvapich, slurm}) {
    const auto found = assignment(set);
    REQUIRE(found.has_value());
    CHECK(*found == rank_assignment{2, 4});
    for (const auto& variable : set) CHECK(contains(found->source, variable.first.c_str()));
  }
}

TEST_CASE("launcher_environment: no rank without both rank and size") {
  CHECK_FALSE(assignment({}).has_value());
  CHECK_FALSE(assignment({{"RANK", "1"}}).has_value());
  CHECK_FALSE(assignment({{"SLURM_NTASKS", "4"}, {"PMI_RANK", "0"}}).has_value());
}

TEST_CASE(
    "launcher_environment: the first complete pair counts, and an equal second one is accepted") {
  const auto found = assignment(both(torchrun, open_mpi));
  REQUIRE(found.has_value());
  CHECK(contains(found->source, "torchrun"));
}

TEST_CASE("launcher_environment: a contradiction is an error that names both launchers") {
  const std::string message = error_message([] {
    assignment(both(mpich, {{"RANK", "1"}, {"WORLD_SIZE", "3"}}));
  });
  CHECK(contains(message, "rank 1 of 3 by torchrun (RANK, WORLD_SIZE)"));
  CHECK(contains(message, "rank 2 of 4 by mpirun (PMI_RANK, PMI_SIZE)"));
  CHECK(contains(error_message([] {
                   detail::comm::expect_same({0, 1, "A"}, {0, 2, "B"});
                 }),
                 "this process is rank 0 of 1 by A, but rank 0 of 2 by B"));
  detail::comm::expect_same({1, 2, "A"}, {1, 2, "B"});
}

TEST_CASE("launcher_environment: below mpirun, Slurm's variables do not count") {
  CHECK(*assignment(both(open_mpi, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}})) ==
        rank_assignment{2, 4});
}

TEST_CASE(
    "launcher_environment: a value that is not an integer is an error that names the variable") {
  for (const char* bad : {"", "two", "-1", "4 ", "4.0", "0", "1048577", "99999999999"}) {
    CAPTURE(bad);
    CHECK(error_message([&] {
            assignment({{"RANK", "0"}, {"WORLD_SIZE", bad}});
          }) == concat("WORLD_SIZE=\"", bad, "\" is not an integer from 1 to 1048576"));
  }
  CHECK(assignment({{"RANK", "1048575"}, {"WORLD_SIZE", "1048576"}})->rank == 1048575);
  CHECK(error_message([&] {
          assignment({{"SLURM_PROCID", "4"}, {"SLURM_NTASKS", "4"}});
        }) == "SLURM_PROCID=\"4\" is not an integer from 0 to 3, as SLURM_NTASKS is 4");
}

TEST_CASE("launcher_environment: the local rank is that of the launcher whose pair counts") {
  const auto local = [](const variables& set) {
    return detail::comm::local_rank_from_environment([&](const char* name) {
      const auto at = set.find(name);
      return at == set.end() ? nullptr : at->second.c_str();
    });
  };
  CHECK(local(both(torchrun, {{"LOCAL_RANK", "3"}, {"SLURM_LOCALID", "1"}})) == 3);
  CHECK(local(both(open_mpi, {{"OMPI_COMM_WORLD_LOCAL_RANK", "1"}})) == 1);
  CHECK(local(both(mpich, {{"MPI_LOCALRANKID", "2"}})) == 2);
  CHECK(local(both(slurm, {{"SLURM_LOCALID", "0"}})) == 0);
  CHECK(local(both(torchrun, {{"SLURM_LOCALID", "1"}})) == std::nullopt);
  CHECK(local({{"LOCAL_RANK", "3"}}) == std::nullopt);
  CHECK(error_message([&] {
          local(both(torchrun, {{"LOCAL_RANK", "-1"}}));
        }) == "LOCAL_RANK=\"-1\" is not an integer from 0 to 1048575");
}

TEST_CASE(
    "launcher_environment: the master's address is MASTER_ADDR's, its port the next one where "
    "torchrun's agent listens") {
  const auto master = [](const variables& set) {
    return detail::comm::master_from_environment([&](const char* name) {
      const auto at = set.find(name);
      return at == set.end() ? nullptr : at->second.c_str();
    });
  };
  variables set{{"MASTER_ADDR", "node1"}};
  CHECK_FALSE(master(set).has_value());
  set["MASTER_PORT"] = "29500";
  CHECK(master(set)->name == "node1");
  CHECK(master(set)->port == 29500);
  set["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  CHECK(master(set)->port == 29501);
  CHECK(master(set)->variable == "MASTER_ADDR");
  for (const char* bad : {"http", "0", "-1", "65535", "65536", "99999999999", "29500 "}) {
    set["MASTER_PORT"] = bad;
    CHECK(error_message([&] { master(set); }) ==
          concat("MASTER_PORT=\"", bad,
                 "\" is not an integer from 1 to 65534, as the ranks meet at the next port"));
  }
  set.erase("TORCHELASTIC_USE_AGENT_STORE");
  CHECK(contains(error_message([&] { master(set); }), " is not an integer from 1 to 65535"));
  set["MASTER_PORT"] = "65535";
  CHECK(master(set)->port == 65535);
}
