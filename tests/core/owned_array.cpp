// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/core/owned_array.hpp>

using namespace cordee::detail;

namespace {

/// Neither copied nor moved; counts how many there are.
struct counted_object {
  counted_object() { ++count; }
  counted_object(const counted_object&) = delete;
  counted_object& operator=(const counted_object&) = delete;
  ~counted_object() { --count; }
  static inline int count = 0;
  int value = 7;
};

}  // namespace

TEST_CASE("owned_array: its objects are made and ended once, whoever owns them") {
  {
    core::owned_array<counted_object> a(3), b(2);
    CHECK(counted_object::count == 5);
    CHECK(a.size() == 3);
    a[2].value = 8;
    int sum = 0;
    for (const counted_object& c : a) sum += c.value;
    CHECK(sum == 22);
    b = std::move(a);
    CHECK(b.size() == 3);
    CHECK(b[2].value == 8);
    const core::owned_array<counted_object> c = std::move(b);
    CHECK(c.end() - c.begin() == 3);
    CHECK(c[2].value == 8);
    CHECK(b.size() == 0);
  }
  CHECK(counted_object::count == 0);
}

TEST_CASE("owned_array: numbers are zero; none by default") {
  const core::owned_array<int> numbers(64);
  for (const int n : numbers) CHECK(n == 0);
  CHECK(core::owned_array<int>().size() == 0);
  CHECK(core::owned_array<int>(0).size() == 0);
}
