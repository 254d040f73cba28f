// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/nccl/meets.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

static_assert(Meets<by_address> && Meets<by_file> && Meets<by_link<threads>>);

namespace {
const meeting_point somewhere{29500, 17, {"node1", "10.0.0.1"}};
}  // namespace

TEST_CASE("meeting_point: it is read as it was written, and half of one is none") {
  const auto again = meeting_point::read(somewhere.str());
  REQUIRE(again.has_value());
  CHECK(again->str() == "29500 17 node1 10.0.0.1");
  for (const char* half : {"", "29500", "29500 17", "here there"})
    CHECK_FALSE(meeting_point::read(half).has_value());
}

TEST_CASE("by_file: what is published is found, nothing before, and the last word counts") {
  const folder here;
  by_file ranks{here.file("meet")};
  CHECK_FALSE(ranks.find().has_value());
  ranks.publish({1, 2, {"earlier"}});
  ranks.publish(somewhere);
  REQUIRE(ranks.find().has_value());
  CHECK(ranks.find()->str() == somewhere.str());
  CHECK(contains(complaint([] {
                   by_file{"/no/such/folder/meet"}.publish({1, 2, {"x"}});
                 }),
                 "by_file: /no/such/folder/meet cannot be written"));
}

TEST_CASE("by_link: rank 0 tells the others, once") {
  threads::launch(
      3,
      [](threads link) {
        by_link ranks{link};
        CHECK(ranks.here() == standing{link.rank(), 3});
        if (link.rank() == 0) return ranks.publish(somewhere);
        for (int again = 0; again < 2; ++again) CHECK(ranks.find()->str() == somewhere.str());
      },
      patient);
}

TEST_CASE("by_address: what was told, or what was said") {
  const by_address said{address{"node7", 1234}};
  CHECK(said.port() == 1234);
  CHECK(said.find()->names == std::vector<std::string>{"node7"});
  CHECK(by_address{std::nullopt}.port() == 0);  // alone
}
