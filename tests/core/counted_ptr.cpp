// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/core/counted_ptr.hpp>

using cordee::detail::core::counted_ptr;

namespace {

struct counts_its_end {
  counts_its_end(int* count, int n) : ends(count), number(n) {}
  counts_its_end(const counts_its_end&) = delete;
  counts_its_end& operator=(const counts_its_end&) = delete;
  ~counts_its_end() { ++*ends; }

  int* ends;
  int number;
};
using shared = counted_ptr<counts_its_end>;

}  // namespace

TEST_CASE("counted_ptr: copies share an object, which ends with the last of them") {
  int ends = 0;
  {
    const shared first = shared::make(&ends, 3);
    CHECK(first->number == 3);
    {
      const shared second = first;
      CHECK(second.get() == first.get());
      (*second).number = 4;
    }
    CHECK(ends == 0);
    CHECK(first->number == 4);
  }
  CHECK(ends == 1);
}

TEST_CASE("counted_ptr: an assignment ends what nothing else shares") {
  int ends = 0, other_ends = 0;
  shared a = shared::make(&ends, 1);
  const shared b = shared::make(&other_ends, 2);
  a = b;
  CHECK(ends == 1);
  CHECK(other_ends == 0);
  a = shared(a);  // of itself
  CHECK(a->number == 2);
  CHECK(other_ends == 0);
}
