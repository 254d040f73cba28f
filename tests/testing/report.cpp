// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/testing/report.hpp>

using cordee::detail::testing::report;

TEST_CASE("report: empty while every expectation holds, then one violation per line, in order") {
  report r;
  CHECK(r.violations() == "");
  r.expect(true, "not recorded");
  CHECK(r.violations() == "");
  r.expect(false, "rank ", 2, " is off by ", 0.5);
  r.expect(true, "not recorded");
  r.expect(false, "and rank ", 3);
  CHECK(r.violations() == "rank 2 is off by 0.5\nand rank 3\n");
}

TEST_CASE("report: appends another law's violations line by line, and nothing if it held") {
  report r;
  r.append("");
  CHECK(r.violations() == "");
  r.append("the first\nthe second\n");
  r.append("without a line end");
  r.expect(false, "the last");
  CHECK(r.violations() == "the first\nthe second\nwithout a line end\nthe last\n");
}

TEST_CASE("report: shows ten violations and counts the rest") {
  report r;
  std::string ten;
  for (int k = 1; k <= 10; ++k) {
    r.expect(false, "law ", k);
    ten += "law " + std::to_string(k) + "\n";
  }
  CHECK(r.violations() == ten);
  r.expect(false, "law ", 11);
  CHECK(r.violations() == ten + "and 1 more\n");
  r.append("law 12\nlaw 13\n");
  CHECK(r.violations() == ten + "and 3 more\n");
}

TEST_CASE("report: violations recorded by four threads at once are all counted") {
  report r;
  std::vector<std::thread> ranks;
  for (int k = 0; k < 4; ++k)
    ranks.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) r.expect(false, "broken");
    });
  for (std::thread& rank : ranks) rank.join();
  CHECK(r.violations().ends_with("broken\nand 3990 more\n"));
}
