// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/nccl/line.hpp>

using namespace cordee;
using detail::frame, detail::line, detail::doorstep;

namespace {

// The next frame, or one of rank -1 after ten seconds, or when the line is over.
frame next(line& from) {
  for (int k = 0; k < 10'000; ++k) {
    if (auto f = from.hear()) return *f;
    if (from.over()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {frame::left, -1, ""};
}

}  // namespace

TEST_CASE("line: frames of any length come whole, in order, both ways") {
  const doorstep door(0);
  line here = line::to("127.0.0.1", door.port()), there = door.let_in();
  REQUIRE_FALSE(here.over());
  CHECK_FALSE(there.hear().has_value());
  for (const std::size_t n : {0u, 1u, 5000u, 100'000u}) {
    here.say({frame::gather, 3, std::string(n, 'x')});
    here.say({frame::failed, 4, "y"});
    const frame first = next(there), second = next(there);
    CHECK(first.what == frame::gather);
    CHECK(first.rank == 3);
    CHECK(first.words == std::string(n, 'x'));
    CHECK(second.words == "y");
  }
  there.say({frame::welcome, 0, "back"});
  CHECK(next(here).words == "back");
}

TEST_CASE("line: what was said before hanging up is heard, and then the line is over") {
  const doorstep door(0);
  line here = line::to("localhost", door.port()), there = door.let_in();
  here.say({frame::left, 1, "farewell"});
  here.hang_up();
  CHECK(next(there).words == "farewell");
  CHECK(next(there).rank == -1);
  CHECK(there.over());
  there.say({frame::failed, 0, "nobody hears"});
}

TEST_CASE("line: who speaks another language is not listened to") {
  for (const std::string& words :
       {std::string("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), std::string(100, '\0')}) {
    const doorstep door(0);
    const line here = line::to("127.0.0.1", door.port());
    line there = door.let_in();
    REQUIRE(send(here.descriptor(), words.data(), words.size(), 0) > 0);
    CHECK(next(there).rank == -1);
    CHECK(there.over());
  }
}

TEST_CASE("line: nobody there, and no such name, is a line that is over") {
  int free = 0;
  {
    const doorstep door(0);
    free = door.port();
  }
  CHECK(line::to("127.0.0.1", free).over());
  CHECK(line::to("no.such.name.invalid", free).over());
}

TEST_CASE("doorstep: a port that is in use is said, with the remedy") {
  const doorstep door(0);
  try {
    const doorstep again(door.port());
    FAIL("two doorsteps on one port");
  } catch (const error& e) {
    const std::string said = e.what();
    CHECK(said.find(text("port ", door.port(), " of this machine")) != std::string::npos);
    CHECK(said.find("in use") != std::string::npos);
    CHECK(said.find("another MASTER_PORT") != std::string::npos);
  }
}
