// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// DecentLaM: decentralised momentum for large batches (Yuan et al. 2021). One exchange a step, of
// positions; the momentum is built from what mixing left, so it does not multiply the bias that
// neighbours' different data leave.
//
//   z = sum_j W_ij (w_j - rate (g_j + weight_decay w_j))       says its trial point, hears z
//   u <- momentum u + (w - z)
//   w <- w - u                                Nesterov: w <- w - (w - z) - momentum u
//
// u is a displacement: the published form keeps u / rate, which is 0 / 0 where warm-up starts or
// cosine ends. They agree while the rate is constant, and under any rates but zero if `corrected`
// (momentum times rate / previous rate; a previous rate of at most 1e-7 leaves it alone). The
// disagreement of the ranks goes into u as well: which graphs survive that is in
// comm/stability.hpp.
#pragma once

#include <string>

#include <cordee/core/text.hpp>
#include <cordee/ops/segmented.hpp>
#include <cordee/optim/momentum.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// g <- w - rate (g + decay w), the point to say.
template <class Real>
struct trial_point {
  const Real* w;
  Real* g;
  Real rate, decay = 0;

  template <class At>
  constexpr void operator()(At at) const {
    at.put(g, at.limited(at(w) - rate * at.limited(at(g) + decay * at(w))));
  }
};

struct trial_point_at {
  template <class Real>
  CORDEE_HOST_DEVICE void operator()(trial_point<Real>& point, const moment& now) const {
    point.rate = factor<Real>(now.rate);
  }
};
/// Proposes it; decay and w stand in `point`.
template <class Real, class D>
span_on<Real, D> propose_trial(const view<Real, D, 1>& v, const moment& now, double decay,
                               kinds decays, typename D::stream s) {
  const trial_point<Real> point{v.weights.data, v.grads.data, 0, factor<Real>(decay)};
  segmented_for<Real>(s, v.segments,
                      at_moment{trial_point_at{}, moment_of(v, now), decaying{decays, point}});
  return v.grads;
}

/// The move along w - mixed.
template <class Real>
struct displacement {
  momentum_move<Real> move;
  const Real* mixed;

  template <class At>
  constexpr void operator()(At at) const {
    move(at, at(move.w) - at(mixed));
  }
};

struct displacement_at {
  correction corrects;
  template <class Real>
  CORDEE_HOST_DEVICE void operator()(displacement<Real>& step, const moment& now) const {
    corrects(step.move.carry, now);
  }
};

/// The answer stands where the gradient stood.
template <class Real, class D>
void displace(const view<Real, D, 1>& v, const moment& now, const consensus& how, bool corrected,
              typename D::stream s) {
  const displacement<Real> step{{v, how.momentum, how.nesterov}, v.grads.data};
  segmented_for<Real>(
      s, v.segments,
      at_moment{displacement_at{{how.momentum, corrected}}, moment_of(v, now), step});
}

}  // namespace detail

struct decentlam {
  static constexpr agreement needs = agreement::mixing;
  static constexpr bool eager = true;
  static constexpr int slots = 1;
  static constexpr when norms = when::never;
  static constexpr bool replays = true;

  double momentum = 0.9;
  double weight_decay = 0;
  bool nesterov = false;
  bool corrected = false;
  kinds decays = kind::weight;

  template <class Real, class D>
  span_on<Real, D> propose(const view<Real, D, slots>& v, const moment& now,
                           typename D::stream s) const {
    return detail::propose_trial(v, now, weight_decay, decays, s);
  }
  template <class Real, class D>
  void accept(const view<Real, D, slots>& v, const moment& now, typename D::stream s) const {
    detail::displace(v, now, moves(), corrected, s);
  }

  [[nodiscard]] consensus moves() const { return {momentum, nesterov}; }
  void check() const {
    detail::expects_memory("decentlam", "momentum", momentum);
    detail::expects_not_negative("decentlam", "weight_decay", weight_decay);
  }

  [[nodiscard]] std::string describe() const {
    return text("decentlam, momentum ", momentum, nesterov ? " (Nesterov)" : "", ", weight decay ",
                weight_decay, ", a displacement",
                corrected ? ", corrected when the rate changes" : "");
  }
};

/// DecentLaM around another rule's direction: its decay and trust ratio act on the rank's own
/// gradient before mixing, its momentum becomes DecentLaM's.
template <class Rule>
struct decentlam_over {
  static constexpr agreement needs = agreement::mixing;
  static constexpr bool eager = true;
  static constexpr int slots = 1;
  static constexpr when norms = Rule::norms == when::never ? when::never : when::before_propose;
  static constexpr bool replays = Replays<Rule>;

  Rule rule{};
  bool corrected = false;

  template <class Real, class D>
  span_on<Real, D> propose(const view<Real, D, slots>& v, const moment& now,
                           typename D::stream s) const {
    static_assert(DirectsOn<Rule, Real, D>,
                  "decentlam_over needs a rule that says its direction alone: a `direct`, and a "
                  "`momentum`; sgd, velocity_sgd and lars do");
    view<Real, D, Rule::slots> own{v.weights, v.grads, {}, v.segments};
    own.weight_squares = v.weight_squares;
    own.grad_squares = v.grad_squares;
    own.sums = v.sums;
    own.now = v.now;
    rule.direct(own, now, s);
    return detail::propose_trial(v, now, 0, {}, s);
  }
  template <class Real, class D>
  void accept(const view<Real, D, slots>& v, const moment& now, typename D::stream s) const {
    detail::displace(v, now, moves(), corrected, s);
  }

  [[nodiscard]] consensus moves() const {
    if constexpr (requires { rule.nesterov; })
      return {rule.momentum, rule.nesterov};
    else
      return {rule.momentum, false};
  }

  void check() const { check_rule(rule); }
  [[nodiscard]] std::string describe() const {
    return text("decentlam over the direction of ", rule.describe());
  }
};
template <class Rule>
decentlam_over(Rule) -> decentlam_over<Rule>;
template <class Rule>
decentlam_over(Rule, bool) -> decentlam_over<Rule>;

}  // namespace cordee::inline CORDEE_ABI
