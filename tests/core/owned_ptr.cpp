// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <doctest/doctest.h>

#include <cordee/core/owned_ptr.hpp>

namespace {

struct counts_its_end {
  int* ends;
};
struct counts {
  void operator()(const counts_its_end* object) const {
    ++*object->ends;
    delete object;
  }
};
using owned = cordee::detail::core::owned_ptr<counts_its_end, counts>;

}  // namespace

TEST_CASE("owned_ptr: an object ends once, with the owner to which it was moved") {
  int ends = 0;
  {
    owned first = owned::make(&ends);
    const owned second = std::move(first);
    CHECK_FALSE(first);
    CHECK(second->ends == &ends);
    CHECK(ends == 0);
  }
  CHECK(ends == 1);
}

TEST_CASE("owned_ptr: an assignment and reset end what was owned") {
  int ends = 0, other_ends = 0;
  owned a = owned::make(&ends);
  a = owned::make(&other_ends);
  CHECK(ends == 1);
  owned& same = a;
  a = std::move(same);  // of itself
  CHECK(other_ends == 0);
  a.reset();
  CHECK(other_ends == 1);
  CHECK(a.get() == nullptr);
}
