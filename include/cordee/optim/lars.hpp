// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// LARS: layer-wise adaptive rate scaling (You, Gitman, Ginsburg 2017), and the two other ways in
// which it is run. They differ in where rate and ratio stand.
//
//   ratio = trust |w| / (|g| + weight_decay |w| + epsilon)     per segment; 1 if |w| or |g| is 0
//   d     = g + weight_decay w
//
//   lars               v <- momentum v + rate ratio d      w <- w - v
//   lars_rate_outside  v <- momentum v + ratio d           w <- w - rate v
//   lars_unscaled      v <- momentum v + d                 w <- w - rate ratio v
//
// `lars` is the default: it is the paper's form, and a step, once in the history, stays what the
// rate and the norms of its time made it; the price is that a change of the rate takes some
// 1 / (1 - momentum) steps to act in full, which warm-up must allow for. `lars_rate_outside` (timm;
// MLPerf's fused LARS is the same numbers) lets the rate act at once, as form P of sgd does.
// `lars_unscaled` (the TPU code, ConAdv) lets the ratio act at once too, so that one odd norm
// rescales the whole history: hence its two limits. It is reported to need fewer epochs (Google's
// MLPerf 0.6), a report we have not verified, and it is not what was published: reach for it to
// repeat those recipes. All three agree while rate and ratio are constant.
//
// The denominator is a sum of norms, not the norm of the sum. Segments whose kind is not in
// `adapts` take the whole rate (ratio 1); those not in `decays` are not decayed. Both are the
// weights alone by default: batch norm's scale and shift and every bias are left out, as in
// MLPerf's reference.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include <cordee/core/text.hpp>
#include <cordee/ops/segmented.hpp>
#include <cordee/optim/momentum.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

/// The share of the whole rate that a segment takes; 1 where its norms say nothing: one is zero, or
/// not even a double holds their quotient, or a mixing rule counts this rank's gradient, which is
/// not finite, as zero.
CORDEE_HOST_DEVICE inline double trust_ratio(double trust, double weight_norm, double grad_norm,
                                             double decay, double epsilon) {
  if (weight_norm == 0 || grad_norm == 0 || !std::isfinite(grad_norm)) return 1;
  const double ratio = trust * weight_norm / (grad_norm + decay * weight_norm + epsilon);
  return std::isfinite(ratio) ? ratio : 1;
}

namespace detail {

/// An arithmetic that takes what LARS gives segment k: its decay, the rate, and the ratio of its
/// norms.
template <class Rule, class Arithmetic>
struct lars_body {
  Rule rule;
  const double *weight_squares, *grad_squares;
  const moment* now;
  Arithmetic f;

  CORDEE_HOST_DEVICE Arithmetic of(kind what, std::size_t k) const {
    const double decay = rule.decays(what) ? rule.weight_decay : 0;
    const double ratio = rule.adapts(what) ? rule.ratio(std::sqrt(weight_squares[k]),
                                                        std::sqrt(grad_squares[k]), decay)
                                           : 1;
    Arithmetic own = f;
    own.take(decay, now->rate, ratio);
    return own;
  }
};
template <class Rule, class Real, class D, class Arithmetic>
void lars_for(const Rule& rule, const view<Real, D, 1>& v, const moment& now, const Arithmetic& f,
              typename D::stream s) {
  segmented_for<Real>(s, v.segments,
                      lars_body<Rule, Arithmetic>{rule, v.weight_squares.data, v.grad_squares.data,
                                                  moment_of(v, now), f});
}

/// The move along g + decay w, with rate and ratio in its gain.
template <class Real>
struct both_inside : decayed_move<Real> {
  CORDEE_HOST_DEVICE void take(double decay, double rate, double ratio) {
    this->decay = factor<Real>(decay);
    this->move.gain = factor<Real>(rate * ratio);
  }
};

/// The same with the ratio alone in its gain.
template <class Real>
struct ratio_inside : decayed_move<Real> {
  CORDEE_HOST_DEVICE void take(double decay, double rate, double ratio) {
    this->decay = factor<Real>(decay);
    this->move.gain = factor<Real>(ratio);
    this->move.rate = factor<Real>(rate);
  }
};

/// The move along g + decay w, whose elements are at most `limit` either way, with rate and ratio
/// outside.
template <class Real>
struct both_outside {
  decayed_move<Real> f;
  Real limit;

  CORDEE_HOST_DEVICE void take(double decay, double rate, double ratio) {
    f.decay = factor<Real>(decay);
    f.move.rate = factor<Real>(rate * ratio);
  }
  template <class At>
  constexpr void operator()(At at) const {
    f.move(at, at.limited(at(f.g) + f.decay * at(f.move.w), limit));
  }
};

/// g <- ratio (g + decay w)
template <class Real>
struct ratio_on_gradient {
  const Real* w;
  Real* g;
  Real by = 1, decay = 0;

  CORDEE_HOST_DEVICE void take(double own_decay, double, double ratio) {
    decay = factor<Real>(own_decay);
    by = factor<Real>(ratio);
  }
  template <class At>
  constexpr void operator()(At at) const {
    at.put(g, by * at.limited(at(g) + decay * at(w)));
  }
};

/// What all three forms refuse.
template <class Rule>
void check_lars(std::string_view name, const Rule& rule) {
  expects_memory(name, "momentum", rule.momentum);
  expects_not_negative(name, "weight_decay", rule.weight_decay);
  expects_positive(name, "trust", rule.trust);
  expects_not_negative(name, "epsilon", rule.epsilon);
}

template <class Rule>
std::string describe_lars(std::string_view name, const Rule& rule, std::string_view form) {
  return text(name, ", trust ", rule.trust, ", momentum ", rule.momentum, ", weight decay ",
              rule.weight_decay, ", ", form,
              rule.adapts == kind::weight && rule.decays == kind::weight
                  ? "; biases and batch norm neither decay nor adapt"
                  : "");
}

}  // namespace detail

/// As published: rate and ratio inside the momentum. Nesterov: w <- w - (momentum v + rate ratio
/// d).
struct lars {
  static constexpr agreement needs = agreement::exact;
  static constexpr bool eager = true;
  static constexpr int slots = 1;
  static constexpr when norms = when::before_accept;
  static constexpr bool replays = true;

  double momentum = 0.9;
  double weight_decay = 1e-4;
  double trust = 0.001;
  double epsilon = 0;
  bool nesterov = false;
  kinds decays = kind::weight;
  kinds adapts = kind::weight;

  template <class Real, class D>
  span_on<Real, D> propose(const view<Real, D, slots>& v, const moment&, typename D::stream) const {
    return v.grads;
  }
  template <class Real, class D>
  void accept(const view<Real, D, slots>& v, const moment& now, typename D::stream s) const {
    const detail::decayed_move<Real> step(v, momentum, nesterov, weight_decay);
    detail::lars_for(*this, v, now, detail::both_inside<Real>{step}, s);
  }

  /// g <- ratio (g + weight_decay w)
  template <class Real, class D>
  void direct(const view<Real, D, slots>& v, const moment& now, typename D::stream s) const {
    detail::lars_for(*this, v, now, detail::ratio_on_gradient<Real>{v.weights.data, v.grads.data},
                     s);
  }

  /// The trust ratio of a segment with these norms.
  [[nodiscard]] CORDEE_HOST_DEVICE double ratio(double weight_norm, double grad_norm,
                                                double decay) const {
    return trust_ratio(trust, weight_norm, grad_norm, decay, epsilon);
  }

  void check() const { detail::check_lars("lars", *this); }
  [[nodiscard]] std::string describe() const {
    return detail::describe_lars(nesterov ? "lars (Nesterov)" : "lars", *this,
                                 "rate and ratio inside the momentum");
  }
};

/// Ratio inside the momentum, rate outside. Nesterov: w <- w - rate (momentum v + ratio d).
struct lars_rate_outside {
  static constexpr agreement needs = agreement::exact;
  static constexpr bool eager = true;
  static constexpr int slots = 1;
  static constexpr when norms = when::before_accept;
  static constexpr bool replays = true;

  double momentum = 0.9;
  double weight_decay = 1e-4;
  double trust = 0.001;
  double epsilon = 1e-8;
  bool nesterov = false;
  kinds decays = kind::weight;
  kinds adapts = kind::weight;

  template <class Real, class D>
  span_on<Real, D> propose(const view<Real, D, slots>& v, const moment&, typename D::stream) const {
    return v.grads;
  }
  template <class Real, class D>
  void accept(const view<Real, D, slots>& v, const moment& now, typename D::stream s) const {
    const detail::decayed_move<Real> step(v, momentum, nesterov, weight_decay);
    detail::lars_for(*this, v, now, detail::ratio_inside<Real>{step}, s);
  }

  /// The trust ratio of a segment with these norms.
  [[nodiscard]] CORDEE_HOST_DEVICE double ratio(double weight_norm, double grad_norm,
                                                double decay) const {
    return trust_ratio(trust, weight_norm, grad_norm, decay, epsilon);
  }

  void check() const { detail::check_lars("lars_rate_outside", *this); }
  [[nodiscard]] std::string describe() const {
    return detail::describe_lars(nesterov ? "lars_rate_outside (Nesterov)" : "lars_rate_outside",
                                 *this, "the ratio inside the momentum, the rate outside");
  }
};

/// Rate and ratio outside of the momentum. The ratio is at most `ratio_limit`, the elements of d at
/// most `element_limit` either way; infinity turns a limit off.
struct lars_unscaled {
  static constexpr agreement needs = agreement::exact;
  static constexpr bool eager = true;
  static constexpr int slots = 1;
  static constexpr when norms = when::before_accept;
  static constexpr bool replays = true;

  double momentum = 0.9;
  double weight_decay = 1e-4;
  double trust = 0.001;
  double epsilon = 1e-5;
  double ratio_limit = 50;
  double element_limit = 10;
  kinds decays = kind::weight;
  kinds adapts = kind::weight;

  template <class Real, class D>
  span_on<Real, D> propose(const view<Real, D, slots>& v, const moment&, typename D::stream) const {
    return v.grads;
  }
  template <class Real, class D>
  void accept(const view<Real, D, slots>& v, const moment& now, typename D::stream s) const {
    const detail::decayed_move<Real> step(v, momentum, false, weight_decay);
    const auto limit = detail::factor<Real>(element_limit);
    detail::lars_for(*this, v, now, detail::both_outside<Real>{step, limit}, s);
  }

  /// The trust ratio of a segment with these norms.
  [[nodiscard]] CORDEE_HOST_DEVICE double ratio(double weight_norm, double grad_norm,
                                                double decay) const {
    return std::min(ratio_limit, trust_ratio(trust, weight_norm, grad_norm, decay, epsilon));
  }

  void check() const {
    detail::check_lars("lars_unscaled", *this);
    expects(ratio_limit > 0 && element_limit > 0,
            "lars_unscaled: a limit must be more than 0; infinity turns it off");
  }
  [[nodiscard]] std::string describe() const {
    return detail::describe_lars("lars_unscaled", *this, "rate and ratio outside of the momentum");
  }
};

}  // namespace cordee::inline CORDEE_ABI
