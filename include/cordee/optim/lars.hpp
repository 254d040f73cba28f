// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// LARS, layer-wise adaptive rate scaling, in the forms in use.
//
//   ratio = trust_coefficient |w| / (|g| + weight_decay |w| + epsilon) per segment, trust_ratio.hpp
//   d     = g + weight_decay w
//
//   lars             v <- momentum v + lr ratio d    w <- w - v          You, Gitman, Ginsburg 2017
//   lars_norm_of_sum the same, with |d| + epsilon as the denominator     optax
//   lars_lr_outside  v <- momentum v + ratio d       w <- w - lr v       timm, MLPerf
//   larc             the same with min(ratio / lr, 1), which limits the segment's rate to lr;
//                    without .limits.clip with ratio                     apex's LARC
//   lars_unscaled    v <- momentum v + d             w <- w - lr ratio v  TPU code, ConAdv
//
//   Nesterov         the last line with momentum v + (the term added to v) in place of v
//
// They agree while lr and ratio are constant. In `lars`, the paper's form, a change of the learning
// rate takes full effect after some 1 / (1 - momentum) steps, which warm-up must allow for. In
// `lars_lr_outside` it takes effect at once, as in form P of sgd. In `lars_unscaled` so does the
// ratio, and one unusual norm rescales the whole momentum: hence its limits. Google's MLPerf 0.6
// reports fewer epochs for it, which we have not verified; it serves to reproduce those results.
//
// By default scales and shifts of batch norm and biases neither adapt nor decay, as in MLPerf's
// reference. LARC adapts every segment, and, as in apex, a segment whose gradient is zero does not
// decay in that step.
//
// timm's Lars uses ratio 1 for parameters without weight decay, thus for all at weight_decay = 0:
// `lars_lr_outside` does so with always_adapt = false. By default weights that do not decay also
// adapt. timm's `trust_clip` is larc with that and adapt_on = kind::weight, except for a tensor
// that is zero or has no gradient: there timm's rate is min(lr, 1), here lr, and timm decays a
// tensor without gradient.
#pragma once

#include <limits>
#include <string>
#include <string_view>

#include <cordee/core/algorithm.hpp>
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

/// g <- ratio (g + decay w), the elements of the sum within -limit .. limit
template <class Real>
struct adapted_gradient {
  const Real* w;
  Real* g;
  Real limit = ops::half_max<Real>, ratio = 1, decay = 0;

  CORDEE_HOST_DEVICE void set(double segment_decay, double, double segment_ratio) {
    decay = factor<Real>(segment_decay);
    ratio = factor<Real>(segment_ratio);
  }
  template <class At>
  constexpr void operator()(At at) const {
    at.put(g, ratio * at.clamped(at(g) + decay * at(w), limit));
  }
};

struct no_limits {
  static constexpr double element = std::numeric_limits<double>::infinity();
  [[nodiscard]] CORDEE_HOST_DEVICE double limited(double ratio, double) const { return ratio; }
  void check() const {}
  [[nodiscard]] std::string describe() const { return {}; }
};

/// What the forms have in common, unless they say otherwise.
struct default_form {
  static constexpr double epsilon = 0, trust_coefficient = 0.001;
  static constexpr kinds adapt_on = kind::weight;
  static constexpr bool norm_of_sum = false;       // the denominator is |d| + epsilon
  static constexpr bool skips_zero_norms = false;  // where a norm is zero, g stays as it is
  using limits = no_limits;
};

struct lars_form : default_form {
  static constexpr std::string_view name = "lars";
  static constexpr std::string_view order = "learning rate and ratio inside the momentum";

  template <class Real>
  static lr_and_ratio_inside<Real> update(const decayed_update<Real>& f, const limits&) {
    return {f};
  }
};
struct lars_norm_of_sum_form : lars_form {
  static constexpr std::string_view name = "lars_norm_of_sum";
  static constexpr bool norm_of_sum = true;
};
struct lars_lr_outside_form : default_form {
  static constexpr std::string_view name = "lars_lr_outside";
  static constexpr std::string_view order = "ratio inside the momentum, learning rate outside";
  static constexpr double epsilon = 1e-8;

  template <class Real, class Limits>
  static ratio_inside<Real> update(const decayed_update<Real>& f, const Limits&) {
    return {f};
  }
};

/// The limit of `larc`.
struct larc_limit {
  bool clip = true;  ///< Whether a segment's rate, lr ratio, is at most lr. Default: as apex.

  static constexpr double element = std::numeric_limits<double>::infinity();
  [[nodiscard]] CORDEE_HOST_DEVICE double limited(double ratio, double learning_rate) const {
    if (!clip) return ratio;
    return ratio < learning_rate ? ratio / learning_rate : 1;
  }
  void check() const {}
  [[nodiscard]] std::string describe() const {
    return clip ? ", ratio at most the learning rate" : "";
  }
};
struct larc_form : lars_lr_outside_form {
  static constexpr std::string_view name = "larc";
  static constexpr double trust_coefficient = 0.02;
  static constexpr kinds adapt_on = core::trainable;
  static constexpr bool skips_zero_norms = true;
  using limits = larc_limit;
};

/// The limits of `lars_unscaled`.
struct lars_limits {
  /// Upper limit of the ratio; infinity: none. Range: above 0, else usage_error. Default: as
  /// Google's TPU code.
  double ratio = 50;
  /// Upper limit of the absolute elements of d; infinity: none. Range: above 0, else usage_error.
  /// Default: as Google's TPU code.
  double element = 10;

  [[nodiscard]] CORDEE_HOST_DEVICE double limited(double segment_ratio, double) const {
    return std::min(ratio, segment_ratio);
  }
  [[gnu::cold]] void check() const {
    expects(ratio > 0 && element > 0,
            "lars_unscaled: a limit must be more than 0; infinity turns it off");
  }
  [[nodiscard]] std::string describe() const {
    return concat(", ratio at most ", ratio, ", elements of the update at most ", element);
  }
};

struct lars_unscaled_form : default_form {
  static constexpr std::string_view name = "lars_unscaled";
  static constexpr std::string_view order = "learning rate and ratio outside the momentum";
  static constexpr double epsilon = 1e-5;
  using limits = lars_limits;

  template <class Real>
  static lr_and_ratio_outside<Real> update(const decayed_update<Real>& f, const limits& l) {
    return {f, factor<Real>(l.element)};
  }
};

/// LARS with learning rate and ratio where `Form` places them; see the aliases.
template <class Form>
struct basic_lars {
  using form = Form;                                    ///< Where learning rate and ratio enter.
  static constexpr agreement needs = agreement::exact;  ///< Steps on the mean gradient.
  static constexpr int slots = 1;                       ///< The momentum v.
  /// Norms of the weights and of the mean gradient.
  static constexpr norms_needed norms = norms_needed::before_accept;
  static constexpr bool capturable = true;  ///< See OptimizerOn.

  /// Momentum: the decay rate of v; 0: none. Range: 0 <= momentum < 1, else usage_error.
  double momentum = 0.9;
  /// L2 penalty: this times w is added to d, and so enters the ratio. Range: finite, 0 or more,
  /// else usage_error.
  double weight_decay = 1e-4;
  /// Trust coefficient eta, a factor of the ratio. Range: finite, above 0, else usage_error.
  /// Default: as timm, optax and Google's TPU code; apex for `larc`.
  double trust_coefficient = Form::trust_coefficient;
  /// Added to the ratio's denominator. Range: finite, 0 or more, else usage_error. Default: as each
  /// form's source at the header's top.
  double epsilon = Form::epsilon;
  /// Limits of the ratio and of elements; only those of `larc` and `lars_unscaled` have members.
  typename Form::limits limits{};
  bool nesterov = false;          ///< Whether to use Nesterov momentum.
  kinds decay_on = kind::weight;  ///< Kinds of segments that decay; the others have weight decay 0.
  kinds adapt_on = Form::adapt_on;  ///< Kinds of segments with a trust ratio; the others' is 1.
  /// Whether segments without weight decay also have a ratio. False: as timm.
  bool always_adapt = true;

  /// Steps with each segment's ratio.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    const decayed_update<Real> update(v, momentum, nesterov, weight_decay);
    for_segments_with_ratio(*this, v, info, Form::update(update, limits), s);
  }

  /// g <- ratio (g + weight_decay w)
  template <class Real, class D>
  void write_direction(const optimizer_view<Real, D, slots>& v, const step_info& info,
                       typename D::stream s) const {
    const auto limit =
        static_cast<Real>(std::min(limits.element, static_cast<double>(ops::half_max<Real>)));
    for_segments_with_ratio(*this, v, info,
                            adapted_gradient<Real>{v.weights.data, v.grads.data, limit}, s);
  }

  /// Returns the ratio of a segment with these norms. `grad_norm` is |d| for `lars_norm_of_sum`,
  /// else |g|; `learning_rate` is that of the step, by which `larc` divides.
  [[nodiscard]] CORDEE_HOST_DEVICE double ratio(double weight_norm, double grad_norm, double decay,
                                                double learning_rate = 1) const {
    if (Form::skips_zero_norms && (weight_norm == 0 || grad_norm == 0)) return 1;
    return limits.limited(trust_ratio(trust_coefficient, weight_norm, grad_norm,
                                      Form::norm_of_sum ? 0 : decay, epsilon),
                          learning_rate);
  }

  /// Throws usage_error for an option outside its range.
  [[gnu::cold]] void check() const {
    expects_decay_rate(Form::name, "momentum", momentum);
    expects_not_negative(Form::name, "weight_decay", weight_decay);
    expects_positive(Form::name, "trust_coefficient", trust_coefficient);
    expects_not_negative(Form::name, "epsilon", epsilon);
    limits.check();
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat(Form::name, nesterov ? " (Nesterov)" : "", ", trust coefficient ",
                  trust_coefficient, ", momentum ", momentum, ", weight decay ", weight_decay, ", ",
                  Form::order, epsilon == Form::epsilon ? "" : concat(", epsilon ", epsilon),
                  limits.describe(), always_adapt ? "" : ", no trust ratio without weight decay",
                  adapt_on == kind::weight && decay_on == kind::weight
                      ? "; biases and batch norm neither decay nor adapt"
                      : "",
                  describe_kinds("decays", decay_on), describe_kinds("adapts", adapt_on));
  }
};

}  // namespace detail::optim

/// LARS as published: learning rate and ratio inside the momentum.
using lars = detail::optim::basic_lars<detail::optim::lars_form>;
/// `lars` with the norm of the sum in the ratio's denominator, as in optax.
using lars_norm_of_sum = detail::optim::basic_lars<detail::optim::lars_norm_of_sum_form>;
/// The ratio inside the momentum, the learning rate outside, as in timm and MLPerf.
using lars_lr_outside = detail::optim::basic_lars<detail::optim::lars_lr_outside_form>;
/// apex's LARC: `lars_lr_outside` on every segment, by default clipped so that no segment's rate
/// exceeds the learning rate.
using larc = detail::optim::basic_lars<detail::optim::larc_form>;
/// Learning rate and ratio outside the momentum, as in Google's TPU code.
using lars_unscaled = detail::optim::basic_lars<detail::optim::lars_unscaled_form>;

}  // namespace cordee::inline CORDEE_ABI
