// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/core/thread.hpp>

namespace {

struct worker {
  void work() { id = std::this_thread::get_id(); }
  std::thread::id id{};
};

}  // namespace

TEST_CASE("start: a member function runs on its object in another thread") {
  worker first, second;
  std::thread a = cordee::detail::core::start_thread<&worker::work>(first),
              b = cordee::detail::core::start_thread<&worker::work>(second);
  const auto id_a = a.get_id(), id_b = b.get_id();
  a.join();
  b.join();
  CHECK(first.id == id_a);
  CHECK(second.id == id_b);
  CHECK(id_a != std::this_thread::get_id());
}
