// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/machine.hpp>

using namespace cordee;
using detail::machine, detail::machine_card;

namespace {

machine_card on(const std::string& name, const std::string& start, const std::vector<int>& cores) {
  machine_card card{};
  name.copy(card.name, sizeof card.name - 1);
  start.copy(card.start, sizeof card.start - 1);
  CPU_ZERO(&card.cores);
  for (const int core : cores) CPU_SET(core, &card.cores);
  return card;
}

}  // namespace

TEST_CASE(
    "machine: ranks of one share the cores that they may run on together, at least one each") {
  const std::vector all{on("a", "1", {0, 1}), on("b", "1", {0, 1, 2, 3, 4, 5}),
                        on("a", "1", {2, 3}), on("a", "2", {7}), on("a", "1", {3})};
  const machine first = machine::of(0, all), last = machine::of(4, all),
                alone = machine::of(3, all);
  CHECK(first.ranks == 3);
  CHECK(first.before == 0);
  CHECK(first.cores == 4);
  CHECK(first.share() == 1);
  CHECK(last.before == 2);
  CHECK(last.cores == 4);
  CHECK(alone.ranks == 1);  // of the same name, and started at another time
  CHECK(alone.share() == 1);
  CHECK(machine::of(1, all).share() == 6);
}

TEST_CASE("machine: a process finds itself on its own one") {
  const machine_card mine = machine_card::mine();
  CHECK(mine.same_machine(machine_card::mine()));
  CHECK(mine.name[0] != '\0');
  CHECK(mine.start[0] != '\0');
  CHECK(machine::of(0, {&mine, 1}).cores >= 1);
}
