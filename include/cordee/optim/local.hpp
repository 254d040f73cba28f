// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Step alone, meet every `every` steps: Local SGD (Lin et al. 2018) when the reducer is an exact
// mean, gossip momentum SGD (DmSGD) when it mixes with neighbours, an asynchronous parameter server
// when that is the reducer.
//
//   every step:        w_i <- rule(w_i, g_i)       own momentum, own decay, never averaged
//   each `every`-th:   w   <- W w                  each one, before the epoch `from`
//
// `from` makes it post-local SGD: the ranks meet at every step until then, best the epoch at which
// the rate falls for the first time, and every `every` steps from there on.
//
// The meeting is counted in steps, which all ranks agree on, never in steps applied: a rank whose
// gradient was not finite takes no step of its own and still meets the others.
#pragma once

#include <string>

#include <cordee/core/text.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

template <class Rule>
struct local {
  static constexpr agreement needs = agreement::loose;
  static constexpr bool eager = false;  // the whole local gradient must be known to be finite
  static constexpr int slots = Rule::slots;
  static constexpr when norms = Rule::norms == when::never ? when::never : when::before_propose;

  Rule rule{};
  int every = 1;
  double from = 0;

  template <class Real, class D>
  span_on<Real, D> propose(const view<Real, D, slots>& v, const moment& now,
                           typename D::stream s) const {
    if (v.finite) rule.accept(v, now, s);
    const bool meets = now.epoch < from || (now.step + 1) % every == 0;
    return meets ? v.weights : span_on<Real, D>{};
  }
  template <class Real, class D>
  void accept(const view<Real, D, slots>&, const moment&, typename D::stream) const {}

  void check() const {
    expects(from >= 0, "local: the epoch from which ranks step alone is 0 or more");
    expects(every >= 1, "local: the ranks meet every so many steps, 1 or more");
    check_rule(rule);
  }
  [[nodiscard]] std::string describe() const {
    return text("local steps of ", rule.describe(), "; ranks meet every ", every, " steps",
                from > 0 ? text(" from epoch ", from, " on, at each one before") : std::string());
  }
};
template <class Rule>
local(Rule, int, double) -> local<Rule>;
template <class Rule>
local(Rule, int) -> local<Rule>;
template <class Rule>
local(Rule) -> local<Rule>;

}  // namespace cordee::inline CORDEE_ABI
