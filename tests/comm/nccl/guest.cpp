// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include <doctest/doctest.h>

#include <cordee/comm/nccl/guest.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace std::chrono_literals;
using detail::guest, detail::host;

TEST_CASE("guest: it waits no longer than it may for one that does not speak") {
  const host at(2, 0, 1, 10s);
  guest a({0, 2}, guest::arrive({"127.0.0.1"}, at.port(), {1, 0, 2}));
  guest b({1, 2}, guest::arrive({"127.0.0.1"}, at.port(), {1, 1, 2}));
  const std::string said = support::complaint([&] { a.gather("here", 400ms); });
  CHECK(support::contains(said, "rank 0 waited 400 ms for every rank to begin"));
}

TEST_CASE("guest: it looks for the host under every name it was told") {
  const host at(1, 0, 1, 10s);
  CHECK_FALSE(guest::arrive({"no.such.name.invalid", "127.0.0.1"}, at.port(), {1, 0, 1}).over());
}
