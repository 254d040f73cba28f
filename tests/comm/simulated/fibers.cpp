// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/simulated/fibers.hpp>

using namespace cordee::detail::comm;

TEST_CASE("fibers: run in the order in which they became ready") {
  std::string order;
  fibers all(1u << 16);
  all.start([&] {
    order += 'a';
    all.suspend();
    order += 'd';
  });
  all.start([&] {
    order += 'b';
    all.yield();
    order += 'c';
    all.wake(0);
  });
  all.run();
  CHECK(order == "abcd");
  CHECK(all.current() == 0);
}

TEST_CASE("fibers: each has its own error context") {
  std::string seen;
  fibers all(1u << 16);
  for (const char* name : {"first", "second"})
    all.start([&, name] {
      const auto describe = [name] { return std::string(name); };
      const error_context context(describe);
      all.yield();
      seen += error_context::suffix();
    });
  all.run();
  CHECK(seen == " (first) (second)");
  CHECK(error_context::suffix().empty());
}
