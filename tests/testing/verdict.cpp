// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/testing/verdict.hpp>

using namespace cordee;

TEST_CASE("verdict: empty while every law holds, then a sentence a line, in order") {
  verdict v;
  CHECK(v.str() == "");
  v.law(true, "nothing to say");
  CHECK(v.str() == "");
  v.law(false, "rank ", 2, " is off by ", 0.5);
  v.law(true, "nothing to say");
  v.law(false, "and rank ", 3);
  CHECK(v.str() == "rank 2 is off by 0.5\nand rank 3\n");
}

TEST_CASE("verdict: ten sentences are shown, the rest is counted") {
  verdict v;
  std::string ten;
  for (int k = 1; k <= 10; ++k) {
    v.law(false, "law ", k);
    ten += "law " + std::to_string(k) + "\n";
  }
  CHECK(v.str() == ten);
  v.law(false, "law ", 11);
  CHECK(v.str() == ten + "and 1 more\n");
  v.law(false, "law ", 12);
  CHECK(v.str() == ten + "and 2 more\n");
}

TEST_CASE("verdict: ranks report side by side, and none is lost") {
  verdict v;
  std::vector<std::thread> ranks;
  for (int r = 0; r < 4; ++r)
    ranks.emplace_back([&] {
      for (int k = 0; k < 1000; ++k) v.law(false, "broken");
    });
  for (std::thread& rank : ranks) rank.join();
  CHECK(v.str().ends_with("broken\nand 3990 more\n"));
}
