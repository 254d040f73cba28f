// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/images/shard_names.hpp>

#include "tests/support/folder.hpp"

using namespace cordee;
using namespace cordee::detail::images;
using names = std::vector<std::string>;

TEST_CASE("shard names: ranges are expanded as by a shell") {
  CHECK(shard_names("train.tar") == names{"train.tar"});
  CHECK(shard_names("t-{0..2}.tar") == names{"t-0.tar", "t-1.tar", "t-2.tar"});
  CHECK(shard_names("t-{098..101}") == names{"t-098", "t-099", "t-100", "t-101"});
  CHECK(shard_names("{9..11}") == names{"9", "10", "11"});
  CHECK(shard_names("{1..02}") == names{"01", "02"});
  CHECK(shard_names("{0..1}/{08..09}.x") == names{"0/08.x", "0/09.x", "1/08.x", "1/09.x"});
  CHECK(shard_names("{5..5}") == names{"5"});
  CHECK(shard_names("{000..127}").size() == 128);
}

TEST_CASE("shard names: other braces are characters of the name") {
  for (const char* const name : {"{}", "{a..b}", "{1}", "{1..}", "{1...2}", "a{1..2", "a}1..2{",
                                 "{-1..2}", "{1..99999999999999999999}"})
    CHECK(shard_names(name) == names{name});
  CHECK(shard_names("{x}{1..2}") == names{"{x}1", "{x}2"});
}

TEST_CASE("shard names: a range that decreases or has a million numbers is refused") {
  for (const char* const name : {"{2..1}", "{0..1000000}", "{0..999}{0..999}{0..9}"})
    CHECK(support::message_of<usage_error>([&] {
            shard_names(name);
          }).starts_with(concat("the shards ", name)));
}
