// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/nccl/rendezvous.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;

static_assert(Rendezvous<rendezvous_tcp> && Rendezvous<rendezvous_file> &&
              Rendezvous<rendezvous_comm<threads>>);

namespace {
const bootstrap_address address{29500, 17, {"node1", "10.0.0.1"}};
}  // namespace

TEST_CASE("bootstrap_address: parse reverses serialize, and rejects an incomplete text") {
  const auto parsed = bootstrap_address::parse(address.serialize());
  REQUIRE(parsed.has_value());
  CHECK(parsed->serialize() == "29500 17 node1 10.0.0.1");
  for (const char* incomplete : {"", "29500", "29500 17", "here there"})
    CHECK_FALSE(bootstrap_address::parse(incomplete).has_value());
}

TEST_CASE("rendezvous_file: find returns the address that was published last, or none") {
  const folder temporary;
  rendezvous_file rendezvous{temporary.file("meet")};
  CHECK_FALSE(rendezvous.find().has_value());
  rendezvous.publish({1, 2, {"earlier"}});
  rendezvous.publish(address);
  REQUIRE(rendezvous.find().has_value());
  CHECK(rendezvous.find()->serialize() == address.serialize());
  CHECK(contains(error_message([] {
                   rendezvous_file{"/no/such/folder/meet"}.publish({1, 2, {"x"}});
                 }),
                 "rendezvous_file: cannot write /no/such/folder/meet"));
}

TEST_CASE("rendezvous_comm: rank 0 sends the address once") {
  threads::launch(
      3,
      [](threads comm) {
        rendezvous_comm rendezvous{comm};
        CHECK(rendezvous.assignment() == rank_assignment{comm.rank(), 3});
        if (comm.rank() == 0) return rendezvous.publish(address);
        for (int k = 0; k < 2; ++k) CHECK(rendezvous.find()->serialize() == address.serialize());
      },
      long_deadline);
}

TEST_CASE("rendezvous_tcp: a given address, or any port of the only rank") {
  const rendezvous_tcp given{master_address{"node7", 1234}};
  CHECK(given.port() == 1234);
  CHECK(given.find()->hosts == std::vector<std::string>{"node7"});
  CHECK(rendezvous_tcp{std::nullopt}.port() == 0);  // a run of one rank
}
