// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/train/callbacks/step_log.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

std::string text_of(const folder& in) {
  const file_bytes bytes = in.get("log");
  return {bytes.begin(), bytes.end()};
}

/// What opening a file that holds `before` leaves of it; "x…" lines are first, "r…" ones repeated.
std::string left_of(const std::string& before, bool resumed) {
  const folder here;
  here.put("log", file_bytes(before.begin(), before.end()));
  {
    detail::train::step_log log{"log", here.file("log")};
    const bool appends = log.open(
        resumed, [](const std::string& line) { return line[0] == 'x'; },
        [](const std::string& line) { return line[0] == 'r'; });
    CHECK(appends == (resumed && !before.empty()));
  }
  return text_of(here);
}

}  // namespace

TEST_CASE("step_log: resuming keeps what precedes the first repeated line or an incomplete one") {
  const std::string wide(1000, '1');  // wider than any buffer for a line
  for (const std::string& kept :
       {"x\n" + std::string(), "x\n1\n2\n" + std::string(), "x" + wide + "\n" + wide + "\n"}) {
    CHECK(left_of(kept, true) == kept);
    CHECK(left_of(kept + "3", true) == kept);
    CHECK(left_of(kept + "r\n", true) == kept);
    CHECK(left_of(kept + "r\n3\n", true) == kept);
    CHECK(left_of(kept, false).empty());
  }
  CHECK(left_of("", true).empty());
}

TEST_CASE("step_log: a line is in the file when it ends, not when the log does") {
  const folder here;
  detail::train::step_log log{"log", here.file("log")};
  log.open(
      false, [](const auto&) { return true; }, [](const auto&) { return false; });
  log.put("1,");
  log.put("2\n");
  CHECK(text_of(here) == "1,2\n");  // a kill loses no more
  log.put("3\n");
  CHECK(text_of(here) == "1,2\n3\n");
}

TEST_CASE("step_log: another file is refused and left as it is") {
  for (const std::string other : {"y\n1\n", "x", "\n"})
    CHECK(contains(error_message([&] { (void)left_of(other, true); }),
                   "has other columns or fields, so that a resumed run cannot append"));
}
