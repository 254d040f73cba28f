// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What layers pass: tests/train/kfac/kronecker_factors.cpp.
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/sample_gradients.hpp>

using namespace cordee::detail::nn;

TEST_CASE("an observer stays with ready through a wrapper, and costs nothing where there is none") {
  struct counting {
    std::vector<std::size_t> segments;
    void observe(std::size_t k, int) { segments.push_back(k); }
  } counts;
  std::vector<std::size_t> ready;
  const auto note = [&](std::size_t k) { ready.push_back(k); };
  const auto twice = [&](std::size_t k) { note(k), note(k); };
  static_assert(std::is_same_v<decltype(with_observer_of(note, twice)),
                               std::remove_const_t<decltype(twice)>>);
  static_assert(!is_observed<decltype(note)>);
  const observed_ready seen{note, counts};
  static_assert(is_observed<decltype(seen)>);
  const auto wrapped = with_observer_of(seen, twice);
  wrapped(3);
  wrapped.observe(4, 0);
  CHECK(ready == std::vector<std::size_t>{3, 3});
  CHECK(counts.segments == std::vector<std::size_t>{4});
}
