// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What is accepted; what is refused is in tests/compile_fail.
#include <doctest/doctest.h>

#include <cordee/train/callbacks/callback_check.hpp>

using namespace cordee;

namespace {

struct run {};

template <class C>
constexpr bool accepted = detail::train::has_callback_members<C, run>();

// Variables may have names that are misspellings of functions.
struct counting {
  int steps = 0, epochs = 0;
  double start = 0, finish = 0;
  void step(const step_record&) { ++steps; }
  void epoch(const epoch_record&) { ++epochs; }
};
struct on_all_ranks {
  template <class Run>
  bool step_on_all_ranks(Run&, double) {
    return false;
  }
  void end_on_all_ranks(run&) {}
};
// Beside the right name others are no misspellings.
struct updating {
  void step(const step_record& r) { update(r); }
  void update(const step_record&) {}
};
// A wrapper forwards what the callback inside has.
template <class C>
struct forwarding {
  C inner;
  void step(const step_record&) {}
  template <class Run>
  bool epoch_on_all_ranks(Run& r, const epoch_record& e)
    requires requires(C c) { c.epoch_on_all_ranks(r, e); }
  {
    return inner.epoch_on_all_ranks(r, e);
  }
};
struct closed final : counting {};

}  // namespace

TEST_CASE("callback_check: one member suffices, on rank 0 or on all ranks, beside any variables") {
  CHECK(accepted<counting>);
  CHECK(accepted<on_all_ranks>);
  CHECK(accepted<updating>);
  CHECK(accepted<forwarding<counting>>);
  CHECK(accepted<closed>);
}
