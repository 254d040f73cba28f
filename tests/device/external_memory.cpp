// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <doctest/doctest.h>

#include <cordee/device/external_memory.hpp>

using namespace cordee::detail;

TEST_CASE("external_memory: it is freed once, by its last owner") {
  static int freed = 0;
  freed = 0;
  int number = 0, owner = 0;
  {
    device::external_memory memory(&number, &owner,
                                   [](void* p) { ++freed, ++*static_cast<int*>(p); });
    CHECK(memory.get() == &number);
    device::external_memory moved = std::move(memory), assigned;
    assigned = std::move(moved);
    CHECK(assigned.get() == &number);
    CHECK(freed == 0);
  }
  CHECK(freed == 1);
  CHECK(owner == 1);
  CHECK(number == 0);
}

TEST_CASE("external_memory: a smart pointer lives as long as it; null owns nothing") {
  const auto value = std::make_shared<int>(7);
  {
    const device::external_memory memory{std::shared_ptr<void>(value, value.get())};
    CHECK(memory.get() == value.get());
    CHECK(value.use_count() == 2);
  }
  CHECK(value.use_count() == 1);
  CHECK(device::external_memory(std::shared_ptr<void>()).get() == nullptr);
  CHECK(device::external_memory(nullptr).get() == nullptr);
}
