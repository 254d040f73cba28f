// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// LARS, layer-wise adaptive rate scaling, in the three forms that are in use.
//
//   ratio = trust_coefficient |w| / (|g| + weight_decay |w| + epsilon)    per segment, trust_ratio.hpp
//   d     = g + weight_decay w
//
//   lars             v <- momentum v + lr ratio d     w <- w - v              You, Gitman, Ginsburg 2017
//   lars_lr_outside  v <- momentum v + ratio d        w <- w - lr v           timm, MLPerf
//   lars_unscaled    v <- momentum v + d              w <- w - lr ratio v     TPU code, ConAdv
//
//   Nesterov         the last line with momentum v + (the term added to v) in place of v
//
// They agree while lr and ratio are constant. In `lars`, the paper's form, a change of the learning
// rate acts in full after some 1 / (1 - momentum) steps, which warm-up must allow for. In
// `lars_lr_outside` it acts at once, as in form P of sgd. In `lars_unscaled` the ratio acts at once
// too, so that one unusual norm rescales the whole momentum: hence its limits. Google's MLPerf 0.6
// reports fewer epochs for it, which we have not verified; it serves to reproduce those results.
//
// Kinds not in `adapt_on` have ratio 1, kinds not in `decay_on` are not decayed. Both are the
// weights alone by default: scales and shifts of batch norm and biases neither adapt nor decay, as
// in MLPerf's reference.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include <cordee/core/concat.hpp>
#include <cordee/optim/describe_kinds.hpp>
#include <cordee/optim/momentum.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/optim/trust_ratio.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::optim {

/// The update along g + decay w with gain lr ratio.
template <class Real>
struct lr_and_ratio_inside : decayed_update<Real> {
  CORDEE_HOST_DEVICE void set(double weight_decay, double learning_rate, double ratio) {
    this->decay = factor<Real>(weight_decay);
    this->update.gain = factor<Real>(learning_rate * ratio);
  }
};

/// The update along g + decay w with gain ratio, at the learning rate.
template <class Real>
struct ratio_inside : decayed_update<Real> {
  CORDEE_HOST_DEVICE void set(double weight_decay, double learning_rate, double ratio) {
    this->decay = factor<Real>(weight_decay);
    this->update.gain = factor<Real>(ratio);
    this->update.learning_rate = factor<Real>(learning_rate);
  }
};

/// The update along g + decay w, its elements within -limit .. limit, at the learning rate
/// lr ratio.
template <class Real>
struct lr_and_ratio_outside {
  decayed_update<Real> decayed;
  Real limit;

  CORDEE_HOST_DEVICE void set(double decay, double learning_rate, double ratio) {
    decayed.decay = factor<Real>(decay);
    decayed.update.learning_rate = factor<Real>(learning_rate * ratio);
  }
  template <class At>
  constexpr void operator()(At at) const {
    decayed.update(at, at.clamped(at(decayed.g) + decayed.decay * at(decayed.update.w), limit));
  }
};

/// g <- ratio (g + decay w)
template <class Real>
struct adapted_gradient {
  const Real* w;
  Real* g;
  Real ratio = 1, decay = 0;

  CORDEE_HOST_DEVICE void set(double segment_decay, double, double segment_ratio) {
    decay = factor<Real>(segment_decay);
    ratio = factor<Real>(segment_ratio);
  }
  template <class At>
  constexpr void operator()(At at) const {
    at.put(g, ratio * at.clamped(at(g) + decay * at(w)));
  }
};

struct no_limits {
  [[nodiscard]] CORDEE_HOST_DEVICE double limited(double ratio) const { return ratio; }
  void check() const {}
  [[nodiscard]] std::string describe() const { return {}; }
};

struct lars_form {
  static constexpr std::string_view name = "lars";
  static constexpr std::string_view order = "learning rate and ratio inside the momentum";
  static constexpr double epsilon = 0;
  static constexpr bool has_direction = true;
  using limits = no_limits;

  template <class Real>
  static lr_and_ratio_inside<Real> update(const decayed_update<Real>& f, const limits&) {
    return {f};
  }
};
struct lars_lr_outside_form {
  static constexpr std::string_view name = "lars_lr_outside";
  static constexpr std::string_view order = "ratio inside the momentum, learning rate outside";
  static constexpr double epsilon = 1e-8;
  static constexpr bool has_direction = false;
  using limits = no_limits;

  template <class Real>
  static ratio_inside<Real> update(const decayed_update<Real>& f, const limits&) {
    return {f};
  }
};

/// Limits of `lars_unscaled`: the ratio is at most `ratio`, the elements of d are within -element
/// .. element. Infinity turns a limit off.
struct lars_limits {
  double ratio = 50;
  double element = 10;

  [[nodiscard]] CORDEE_HOST_DEVICE double limited(double segment_ratio) const {
    return std::min(ratio, segment_ratio);
  }
  void check() const {
    expects(ratio > 0 && element > 0,
            "lars_unscaled: a limit must be more than 0; infinity turns it off");
  }
  [[nodiscard]] std::string describe() const {
    return concat(", ratio at most ", ratio, ", elements of the update at most ", element);
  }
};

struct lars_unscaled_form {
  static constexpr std::string_view name = "lars_unscaled";
  static constexpr std::string_view order = "learning rate and ratio outside the momentum";
  static constexpr double epsilon = 1e-5;
  static constexpr bool has_direction = false;
  using limits = lars_limits;

  template <class Real>
  static lr_and_ratio_outside<Real> update(const decayed_update<Real>& f, const limits& l) {
    return {f, factor<Real>(l.element)};
  }
};

/// LARS with learning rate and ratio where `Form` places them; see the aliases.
template <class Form>
struct basic_lars {
  static constexpr agreement needs = agreement::exact;
  static constexpr bool eager = true;
  static constexpr int slots = 1;  // v
  static constexpr norms_needed norms = norms_needed::before_accept;
  static constexpr bool capturable = true;

  double momentum = 0.9;
  double weight_decay = 1e-4;
  double trust_coefficient = 0.001;
  double epsilon = Form::epsilon;
  typename Form::limits limits{};  // without members but in lars_unscaled
  bool nesterov = false;
  kinds decay_on = kind::weight;
  kinds adapt_on = kind::weight;

  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, slots>& v, const step_info&,
                           typename D::stream) const {
    return v.grads;
  }
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    const decayed_update<Real> update(v, momentum, nesterov, weight_decay);
    for_segments_with_ratio(*this, v, info, Form::update(update, limits), s);
  }

  /// g <- ratio (g + weight_decay w)
  template <class Real, class D>
    requires Form::has_direction
  void write_direction(const optimizer_view<Real, D, slots>& v, const step_info& info,
                       typename D::stream s) const {
    for_segments_with_ratio(*this, v, info, adapted_gradient<Real>{v.weights.data, v.grads.data},
                            s);
  }

  /// The trust ratio of a segment with these norms.
  [[nodiscard]] CORDEE_HOST_DEVICE double ratio(double weight_norm, double grad_norm,
                                                double decay) const {
    return limits.limited(trust_ratio(trust_coefficient, weight_norm, grad_norm, decay, epsilon));
  }

  void check() const {
    expects_decay_rate(Form::name, "momentum", momentum);
    expects_not_negative(Form::name, "weight_decay", weight_decay);
    expects_positive(Form::name, "trust_coefficient", trust_coefficient);
    expects_not_negative(Form::name, "epsilon", epsilon);
    limits.check();
  }
  [[nodiscard]] std::string describe() const {
    return concat(Form::name, nesterov ? " (Nesterov)" : "", ", trust coefficient ",
                  trust_coefficient, ", momentum ", momentum, ", weight decay ", weight_decay, ", ",
                  Form::order, epsilon == Form::epsilon ? "" : concat(", epsilon ", epsilon),
                  limits.describe(),
                  adapt_on == kind::weight && decay_on == kind::weight
                      ? "; biases and batch norm neither decay nor adapt"
                      : "",
                  describe_kinds("decays", decay_on), describe_kinds("adapts", adapt_on));
  }
};

}  // namespace detail::optim

using lars = detail::optim::basic_lars<detail::optim::lars_form>;
using lars_lr_outside = detail::optim::basic_lars<detail::optim::lars_lr_outside_form>;
using lars_unscaled = detail::optim::basic_lars<detail::optim::lars_unscaled_form>;

}  // namespace cordee::inline CORDEE_ABI
