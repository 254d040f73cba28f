// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/launch.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using support::complaint, support::contains;

namespace {

using variables = std::map<std::string, std::string>;

std::optional<standing> told(const variables& set) {
  return told_standing([&](const char* name) {
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

TEST_CASE("launch: every launcher is understood") {
  for (const variables& set : {torchrun, open_mpi, mpich, mvapich, slurm}) {
    const auto here = told(set);
    REQUIRE(here.has_value());
    CHECK(*here == standing{2, 4});
    for (const auto& variable : set) CHECK(contains(here->said_by, variable.first.c_str()));
  }
}

TEST_CASE("launch: nobody's word, or half a word, is none") {
  CHECK_FALSE(told({}).has_value());
  CHECK_FALSE(told({{"RANK", "1"}}).has_value());
  CHECK_FALSE(told({{"SLURM_NTASKS", "4"}, {"PMI_RANK", "0"}}).has_value());
}

TEST_CASE("launch: the first complete pair counts, and a second one that agrees does no harm") {
  const auto here = told(both(torchrun, open_mpi));
  REQUIRE(here.has_value());
  CHECK(contains(here->said_by, "torchrun"));
}

TEST_CASE("launch: a disagreement prints both") {
  const std::string said = complaint([] {
    told(both(mpich, {{"RANK", "1"}, {"WORLD_SIZE", "3"}}));
  });
  CHECK(contains(said, "torchrun (RANK, WORLD_SIZE) says rank 1 of 3"));
  CHECK(contains(said, "mpirun (PMI_RANK, PMI_SIZE) says rank 2 of 4"));
  CHECK(contains(complaint([] {
                   expect_same({0, 1, "you"}, {0, 2, "I"});
                 }),
                 "you says rank 0 of 1, but I says rank 0 of 2"));
  expect_same({1, 2, "you"}, {1, 2, "I"});
}

TEST_CASE("launch: below mpirun, Slurm's variables are those of mpirun's daemon") {
  CHECK(*told(both(open_mpi, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}})) == standing{2, 4});
}

TEST_CASE("launch: what is not a whole number is refused by name") {
  for (const char* bad : {"", "two", "-1", "4 ", "4.0", "99999999999"}) {
    CAPTURE(bad);
    CHECK(contains(complaint([&] {
                     told({{"RANK", "0"}, {"WORLD_SIZE", bad}});
                   }),
                   "WORLD_SIZE=\""));
  }
}

TEST_CASE("launch: the local rank is that of the launcher whose pair counts") {
  const auto local = [](const variables& set) {
    return told_local_rank([&](const char* name) {
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
}

TEST_CASE(
    "launch: ranks meet where MASTER_ADDR says, on the next port if torchrun's agent has that") {
  const auto where = [](const variables& set) {
    return told_address([&](const char* name) {
      const auto at = set.find(name);
      return at == set.end() ? nullptr : at->second.c_str();
    });
  };
  variables told{{"MASTER_ADDR", "node1"}};
  CHECK_FALSE(where(told).has_value());
  told["MASTER_PORT"] = "29500";
  CHECK(where(told)->name == "node1");
  CHECK(where(told)->port == 29500);
  told["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  CHECK(where(told)->port == 29501);
  told["MASTER_PORT"] = "http";
  CHECK(contains(complaint([&] { where(told); }), "MASTER_PORT=\"http\" is not a whole number"));
}
