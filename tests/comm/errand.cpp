// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/errand.hpp>

using namespace cordee;

TEST_CASE("errand: words of the innermost one, of this thread, and nothing without one") {
  CHECK(errand::words().empty());
  int asked = 0;
  const auto outer = [&] { return "step " + std::to_string(++asked); };
  const errand first(outer);
  CHECK(asked == 0);  // words are made when they are wanted
  CHECK(errand::words() == " (step 1)");
  {
    const auto inner = [] { return "bucket 7"; };
    const errand second(inner);
    CHECK(errand::words() == " (bucket 7)");
    std::string elsewhere = "unasked";
    std::thread([&] { elsewhere = errand::words(); }).join();
    CHECK(elsewhere.empty());
  }
  CHECK(errand::words() == " (step 2)");
  const auto whole = [] { return "in a group" + errand::outer(); };
  const errand third(whole), fourth(whole);
  CHECK(errand::words() == " (in a group (in a group (step 3)))");
  CHECK(errand::words() == " (in a group (in a group (step 4)))");  // asking changes nothing
}

TEST_CASE("errand: what has been reached is the innermost errand's that knows of any") {
  CHECK(errand::reached().empty());
  const auto words = [] { return "bucket 7"; };
  const auto reached = [] { return std::vector{milestone{7, "bucket 6", {0, 2}}}; };
  const errand outer(words, reached), inner(words);
  REQUIRE(errand::reached().size() == 1);
  CHECK(errand::reached()[0].line() == "7 0-0,2-2 bucket 6");
}
