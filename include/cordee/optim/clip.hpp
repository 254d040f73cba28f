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
#include <cordee/ops/lanewise.hpp>
#include <cordee/ops/segmented.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

template <class Rule>
struct clip {
  static constexpr bool exact = Rule::needs == agreement::exact;

  static constexpr agreement needs = Rule::needs;
  static constexpr bool eager = exact && Rule::eager;
  static constexpr int slots = Rule::slots;
  static constexpr when norms = exact ? when::before_accept : when::before_propose;
  static_assert(!exact || Rule::norms != when::before_propose,
                "clip: a rule that needs an exact mean has its norms before it accepts");

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
    return std::min(1.0, max_norm / (norm + epsilon));
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
    const double square = v.grad_square.data[0], scale = factor(std::sqrt(square));
    const double after = square * scale * scale;
    if (scale < 1 && v.finite) {
      const auto shorter = static_cast<Real>(scale);
      segmented_for(s, v.segments, [&](std::size_t, std::size_t first, std::size_t last) {
        const Real by = shorter;
        Real* g = v.grads.data;
        lanewise<Real>(first, last, [=](auto at) { at.put(g, by * at(g)); });
      });
      for (std::size_t k = 0; k < v.segments.size(); ++k) v.grad_squares.data[k] *= scale * scale;
      v.grad_square = {&after, 1};
    }
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
