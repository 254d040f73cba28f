// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Gradients no longer than `max_norm`, all segments together (Pascanu, Mikolov, Bengio 2013).
//
//   g <- g min(1, max_norm / (|g| + epsilon))        then as the rule inside
//
// What is clipped is the gradient that the rule steps on. If that is the mean over ranks, it is
// clipped in accept, and the ranks stay alike. If the rule steps or speaks from its own gradient
// (`local`, rules that mix positions), each rank clips its own before it proposes, which needs the
// whole of it: such a rule is not eager. Clipping one's own gradients and then averaging them would
// be another method, and is not offered.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include <cordee/core/text.hpp>
#include <cordee/device/grid.hpp>
#include <cordee/ops/elementwise.hpp>
#include <cordee/ops/segmented.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// What a gradient is multiplied by; its squared norm lies on the device.
struct clipping {
  const double* square;
  double max_norm, epsilon;

  CORDEE_HOST_DEVICE static double factor(double norm, double max_norm, double epsilon) {
    return std::min(1.0, max_norm / (norm + epsilon));
  }
  CORDEE_HOST_DEVICE double factor() const { return factor(std::sqrt(*square), max_norm, epsilon); }
};

/// g <- by g
template <class Real>
struct shortening {
  Real* g;
  Real by;

  [[nodiscard]] CORDEE_HOST_DEVICE bool idle() const { return by == 1; }
  template <class At>
  constexpr void operator()(At at) const {
    at.put(g, by * at(g));
  }
};
template <class Real>
struct clipped_gradient {
  clipping how;
  Real* g;

  CORDEE_HOST_DEVICE shortening<Real> of(kind, std::size_t) const {
    return {g, static_cast<Real>(how.factor())};
  }
};

/// The squared norms of what was clipped: of segment k, and of the whole.
struct clipped_squares {
  clipping how;
  double *squares, *whole;

  CORDEE_HOST_DEVICE void operator()(std::size_t k) const {
    const double by = how.factor();
    squares[k] *= by * by;
    if (k == 0) *whole = *how.square * by * by;
  }
};

}  // namespace detail

template <class Rule>
struct clip {
  static constexpr bool exact = Rule::needs == agreement::exact;

  static constexpr agreement needs = Rule::needs;
  static constexpr bool eager = exact && Rule::eager;
  static constexpr int slots = Rule::slots;
  static constexpr when norms = exact ? when::before_accept : when::before_propose;
  static_assert(!exact || Rule::norms != when::before_propose,
                "clip: a rule that needs an exact mean has its norms before it accepts");
  static constexpr bool replays = Replays<Rule>;

  Rule rule{};
  double max_norm = 1;
  double epsilon = 1e-6;  // as torch has it; apex and timm have none

  template <class Real, class D>
  span_on<Real, D> propose(const view<Real, D, slots>& v, const moment& now,
                           typename D::stream s) const {
    if constexpr (exact)
      return rule.propose(v, now, s);
    else
      return clipped(v, s, [&](const auto& inner) { return rule.propose(inner, now, s); });
  }
  template <class Real, class D>
  void accept(const view<Real, D, slots>& v, const moment& now, typename D::stream s) const {
    if constexpr (exact)
      clipped(v, s, [&](const auto& inner) { rule.accept(inner, now, s); });
    else
      rule.accept(v, now, s);
  }

  /// What a gradient of this norm is multiplied by.
  [[nodiscard]] double factor(double norm) const {
    return detail::clipping::factor(norm, max_norm, epsilon);
  }

  void check() const {
    detail::expects_positive("clip", "max_norm", max_norm);
    detail::expects_not_negative("clip", "epsilon", epsilon);
    check_rule(rule);
  }
  [[nodiscard]] consensus moves() const
    requires requires(const Rule& r) { r.moves(); }
  {
    return rule.moves();
  }
  [[nodiscard]] std::string describe() const {
    return text(rule.describe(), "; gradients clipped to norm ", max_norm,
                exact ? "" : " on each rank");
  }

 private:
  // f(the view whose gradient, and the norms said of it, are clipped)
  template <class Real, class D, class F>
  auto clipped(view<Real, D, slots> v, typename D::stream s, const F& f) const {
    if (!v.finite) return f(v);
    const detail::clipping how{v.grad_square.data, max_norm, epsilon};
    const lent<double, typename D::stream> after(s, 1);
    segmented_for<Real>(s, v.segments, detail::clipped_gradient<Real>{how, v.grads.data});
    for_each(s, v.segments.size(), detail::clipped_squares{how, v.grad_squares.data, after.data()});
    v.grad_square = {after.data(), 1};
    return f(v);
  }
};
template <class Rule>
clip(Rule, double) -> clip<Rule>;
template <class Rule>
clip(Rule, double, double) -> clip<Rule>;
template <class Rule>
clip(Rule) -> clip<Rule>;

}  // namespace cordee::inline CORDEE_ABI
