// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <cordee/comm/transports/simulated/probes.hpp>

using namespace cordee::detail::comm;

TEST_CASE("probes: the earliest message is answered first, and none after the limit") {
  probes waiting;
  waiting.add(10, 0, 2, {});
  waiting.add(11, 1, 2, {});
  std::map<int, std::pair<double, int>> sent{{0, {5, 7}}, {1, {4, 8}}};
  const auto first_sent = [&](int rank, int) { return sent[rank]; };
  CHECK(!waiting.answer(3.5, first_sent));
  CHECK(waiting.answer(9, first_sent) == std::pair<std::size_t, int>{11, 8});
  CHECK(!waiting.answer(4, first_sent));
  CHECK(waiting.answer(5, first_sent) == std::pair<std::size_t, int>{10, 7});
  CHECK(waiting.empty());
  CHECK(!waiting.answer(9, first_sent));
}

TEST_CASE("probes: of messages of one time the fiber that asked first has its answer, if any") {
  probes waiting;
  waiting.add(10, 0, 2, {});
  waiting.add(11, 1, 2, {});
  waiting.add(12, 2, 2, {});
  const auto first_sent = [](int rank, int) { return std::pair{1.0, rank == 0 ? -1 : rank}; };
  CHECK(waiting.answer(1, first_sent) == std::pair<std::size_t, int>{11, 1});
}

TEST_CASE("probes: what a fiber waits for, and a rank that has left before others") {
  probes waiting;
  waiting.add(10, 0, 2, {});
  const std::array expected{4, 5};
  waiting.add(11, 1, 2, expected);
  const auto has_left = [](int rank) { return rank == 5; };
  CHECK(!waiting.awaited(9, has_left));
  CHECK(waiting.awaited(10, has_left) ==
        std::pair<std::string, int>{"any rank to send on context 2", -1});
  CHECK(waiting.awaited(11, has_left) ==
        std::pair<std::string, int>{"rank 4 or rank 5 to send on context 2", 5});
  CHECK(waiting.awaited(11, [](int) { return false; })->second == 4);
}
