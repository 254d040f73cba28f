// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/train/checks/settings.hpp>

#include "tests/support/foreign_locale.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("settings: the first line that differs, also where one text ends") {
  using detail::train::first_difference;
  CHECK(first_difference("a\t1\nb\t2\n", "a\t1\nb\t3\n", 4) ==
        "b differs: rank 0 has 2, rank 4 has 3: give every rank the same");
  CHECK(first_difference("a\t1\n", "a\t1\nb\t3\n", 4) ==
        "b differs: rank 0 has none, rank 4 has 3: give every rank the same");
  CHECK(first_difference("a\t1\nb\t2\n", "a\t1\n", 4) ==
        "b differs: rank 0 has 2, rank 4 has none: give every rank the same");
  CHECK(contains(first_difference("", "", 1), "rank 0 has none"));
  const std::string same = "o\t" + std::string(300, 'x');  // of a value too long for the message
  CHECK(first_difference(same + ", a 1, b 2\n", same + ", a 3, b 2\n", 1) ==
        "o differs: rank 0 has ... a 1, b 2, rank 1 has ... a 3, b 2: give every rank the same");
}

TEST_CASE("settings: numbers that differ in the last bit are different in any locale") {
  const foreign_locale german;
  detail::train::settings a, b;
  a.add("momentum", 0.9);
  b.add("momentum", std::nextafter(0.9, 1.0));
  CHECK(a.fingerprint() != b.fingerprint());
  CHECK(
      detail::train::first_difference(a.lines(), b.lines(), 1) ==
      "momentum differs: rank 0 has 0.9, rank 1 has 0.9000000000000001: give every rank the same");
}
