// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/core/thread.hpp>

namespace {

struct worker {
  void work() { here = std::this_thread::get_id(); }
  std::thread::id here{};
};

}  // namespace

TEST_CASE("a member function runs on its object, in another thread") {
  worker first, second;
  std::thread a = cordee::start<&worker::work>(first), b = cordee::start<&worker::work>(second);
  const auto of_a = a.get_id(), of_b = b.get_id();
  a.join();
  b.join();
  CHECK(first.here == of_a);
  CHECK(second.here == of_b);
  CHECK(of_a != std::this_thread::get_id());
}
