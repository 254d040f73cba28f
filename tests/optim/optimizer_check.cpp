// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What is accepted; what is refused is in tests/compile_fail.
#include <doctest/doctest.h>

#include <cordee/optim/adapt_while_combine.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/lookahead.hpp>
#include <cordee/optim/optimizer_check.hpp>
#include <cordee/optim/parameter_groups.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/optim/weight_average.hpp>

using namespace cordee;

namespace {

template <class O>
constexpr bool accepted = detail::optim::has_optimizer_members<O, float, cpu>() &&
                          detail::optim::has_optimizer_members<O, double, cpu>();

struct closed final : sgd {};
// Hyper-parameters may have any name that no member has.
struct with_more : sgd {
  double form = 1, direction = 1, average = 1;
};

// A wrapper forwards what the optimizer inside has.
template <class O>
struct forwarding : sgd {
  O inner;
  template <class V, class S>
  void initialize(const V& v, S s) const
    requires requires(const O o) { o.initialize(v, s); }
  {
    inner.initialize(v, s);
  }
  cordee::momentum_form momentum_form() const
    requires requires(const O o) { o.other_form(); }
  {
    return inner.other_form();
  }
};
// Beside the right name others are no misspellings.
struct verbose : sgd {
  std::string to_string() const { return describe(); }
  void validate() const { check(); }
};

}  // namespace

TEST_CASE("optimizer_check: wrappers, whose members are constrained, and optimizers of one's own") {
  CHECK(accepted<sgd>);
  CHECK(accepted<lars>);
  CHECK(accepted<clip<sgd>>);
  CHECK(accepted<local_steps<lars>>);
  CHECK(accepted<lookahead<sgd>>);
  CHECK(accepted<decentlam>);
  CHECK(accepted<decentlam_over<sgd>>);
  CHECK(accepted<adapt_while_combine<local_steps<sgd>>>);
  CHECK(accepted<weight_average<clip<sgd>, exponential_average>>);
  CHECK(accepted<closed>);
  CHECK(accepted<with_more>);
  CHECK(accepted<forwarding<sgd>>);
  CHECK(accepted<verbose>);
}
