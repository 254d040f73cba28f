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
#include <limits>
#include <string>

#include <cordee/core/text.hpp>
#include <cordee/ops/lanewise.hpp>
#include <cordee/ops/segmented.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

/// The share of the whole rate that a segment takes; 1 where its norms say nothing: one is zero, or
/// not even a double holds their quotient, or a mixing rule counts this rank's gradient, which is
/// not finite, as zero.
inline double trust_ratio(double trust, double weight_norm, double grad_norm, double decay,
                          double epsilon) {
  if (weight_norm == 0 || grad_norm == 0 || !std::isfinite(grad_norm)) return 1;
  const double ratio = trust * weight_norm / (grad_norm + decay * weight_norm + epsilon);
  return std::isfinite(ratio) ? ratio : 1;
}

namespace detail {

/// A factor as the kernels' number. Norms far apart give factors that no float holds, and infinity
/// times a zero gradient is not a number.
template <class Real>
Real factor(double x) {
  constexpr double most = std::numeric_limits<Real>::max();
  return static_cast<Real>(std::clamp(x, -most, most));
}

/// f(first, last, decay, ratio) for runs of numbers, with what LARS gives their segment.
template <class Rule, class Real, class D, class F>
void lars_for(const Rule& rule, const view<Real, D, 1>& v, typename D::stream s, const F& f) {
  segmented_for(s, v.segments, [&](std::size_t k, std::size_t first, std::size_t last) {
    const double decay = rule.decays(v.segments[k].what) ? rule.weight_decay : 0;
    const double ratio = rule.adapts(v.segments[k].what)
                             ? rule.ratio(std::sqrt(v.weight_squares.data[k]),
                                          std::sqrt(v.grad_squares.data[k]), decay)
                             : 1;
    f(first, last, static_cast<Real>(decay), ratio);
  });
}

template <class Rule, class Real, class D>
void lars_direct(const Rule& rule, const view<Real, D, 1>& v, typename D::stream s) {
  lars_for(rule, v, s, [&](std::size_t first, std::size_t last, Real decay, double ratio) {
    const auto share = factor<Real>(ratio);
    const Real* w = v.weights.data;
    Real* g = v.grads.data;
    lanewise<Real>(first, last, [=](auto at) { at.put(g, share * (at(g) + decay * at(w))); });
  });
}

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
    detail::lars_for(*this, v, s,
                     [&](std::size_t first, std::size_t last, Real decay, double share) {
                       const auto rate = detail::factor<Real>(now.rate * share);
                       const auto mu = static_cast<Real>(momentum);
                       const Real on_v = nesterov ? mu : Real{1}, on_d = nesterov ? rate : Real{0};
                       Real* w = v.weights.data;
                       Real* u = v.slots[0].data;
                       const Real* g = v.grads.data;
                       lanewise<Real>(first, last, [=](auto at) {
                         const auto d = at(g) + decay * at(w);
                         const auto moved = mu * at(u) + rate * d;
                         at.put(u, moved);
                         at.put(w, at(w) - (on_v * moved + on_d * d));
                       });
                     });
  }

  /// g <- ratio (g + weight_decay w)
  template <class Real, class D>
  void direct(const view<Real, D, slots>& v, const moment&, typename D::stream s) const {
    detail::lars_direct(*this, v, s);
  }

  /// The trust ratio of a segment with these norms.
  [[nodiscard]] double ratio(double weight_norm, double grad_norm, double decay) const {
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
    detail::lars_for(*this, v, s,
                     [&](std::size_t first, std::size_t last, Real decay, double share) {
                       const auto rate = static_cast<Real>(now.rate);
                       const auto scale = detail::factor<Real>(share);
                       const auto mu = static_cast<Real>(momentum);
                       const Real on_v = nesterov ? mu : Real{1}, on_d = nesterov ? scale : Real{0};
                       Real* w = v.weights.data;
                       Real* u = v.slots[0].data;
                       const Real* g = v.grads.data;
                       lanewise<Real>(first, last, [=](auto at) {
                         const auto d = at(g) + decay * at(w);
                         const auto moved = mu * at(u) + scale * d;
                         at.put(u, moved);
                         at.put(w, at(w) - rate * (on_v * moved + on_d * d));
                       });
                     });
  }

  /// The trust ratio of a segment with these norms.
  [[nodiscard]] double ratio(double weight_norm, double grad_norm, double decay) const {
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
    detail::lars_for(*this, v, s,
                     [&](std::size_t first, std::size_t last, Real decay, double share) {
                       const auto rate = detail::factor<Real>(now.rate * share);
                       const auto limit = detail::factor<Real>(element_limit);
                       const auto mu = static_cast<Real>(momentum);
                       Real* w = v.weights.data;
                       Real* u = v.slots[0].data;
                       const Real* g = v.grads.data;
                       lanewise<Real>(first, last, [=](auto at) {
                         const auto moved = mu * at(u) + at.limited(at(g) + decay * at(w), limit);
                         at.put(u, moved);
                         at.put(w, at(w) - rate * moved);
                       });
                     });
  }

  /// The trust ratio of a segment with these norms.
  [[nodiscard]] double ratio(double weight_norm, double grad_norm, double decay) const {
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
