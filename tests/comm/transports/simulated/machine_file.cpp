// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/transports/simulated/machine.hpp>
#include <cordee/comm/transports/simulated/machine_file.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("machine: a file that is not one is refused by name") {
  const auto thrown = [](const std::string& text) {
    std::istringstream in(text);
    return error_message([&] { (void)read_machine(in); });
  };
  CHECK(contains(thrown(""), "\"\" is none of fat_tree, torus, dragonfly"));
  CHECK(contains(thrown("mesh\n"), "\"mesh\" is none of"));
  CHECK(contains(thrown("torus\nlink 1 2"), "needs a line that begins with dimensions"));
  CHECK(contains(thrown("torus\nlink 1\ndimensions 4"), "link has a latency in seconds"));
  CHECK(contains(thrown("torus\nlink 1 0\ndimensions 4"), "link has a latency in seconds"));
  CHECK(contains(thrown("torus\nlink -1 2\ndimensions 4"), "link has a latency in seconds"));
  CHECK(contains(thrown("torus\nlink inf 2\ndimensions 4"), "link has "));
  CHECK(contains(thrown("torus\nlink 1 inf\ndimensions 4"), "link has "));
  CHECK(contains(thrown("torus\nlink 1 fast\ndimensions 4"),
                 "link has \"fast\", which is not a number"));
  CHECK(contains(thrown("torus\nlink 1 2\nlink 1 2"), "link is there twice"));
  CHECK(contains(thrown("torus\nlink 1 2\ndimensions 4 0"), "dimensions is a positive integer"));
  CHECK(contains(thrown("torus\nlink 1 2\ndimensions 2.5"), "dimensions is a positive integer"));
  CHECK(contains(thrown("torus\nlink 1 2\ndimensions 4 2 2 2"), "dimensions has too many numbers"));
  CHECK(
      contains(thrown("torus\nlink 1 2\ndimensions 1000001"), "dimensions is a positive integer"));
  CHECK(thrown("torus\nlink 1 2\ndimensions 1000000") == "");
  CHECK(contains(thrown("torus\nlink 1 2\ndimensions 4\nrack 1 2"), "a torus has no rack"));
}
