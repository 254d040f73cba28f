// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// LAMB: Adam's direction with weight decay, in steps proportional to the norm of the weights (You
// et al. 2019).
//
//   m^, v^ as in adamw.hpp
//   u = m^ / (sqrt(v^) + epsilon) + weight_decay w
//   w <- w - lr ratio u        ratio = |w| / |u| per segment, within `limits`; 1 if |w| or |u| is 0
//
//   lamb            adapts only weights                                  Google's BERT
//   nvlamb          adapts every segment, batch norm and biases too      the paper, optax, NVIDIA
//   lambc           lamb with a ratio of at most 1                       timm's trust_clip
//   deepspeed_lamb  adapts every segment, by a ratio within 0.01 .. 10 of the u without bias
//                   correction; the step is multiplied by sqrt(1 - beta2^t) / (1 - beta1^t)
//
// timm's Lamb and apex's FusedLAMB use ratio 1 for parameters without weight decay, which are
// biases and norms in most recipes, and everything at weight_decay = 0: `lamb` and `lambc` do so
// with always_adapt = false. By default `lamb` also adapts weights that do not decay; if the
// weights decay, both are the same. nvlamb is timm's always_adapt and apex's use_nvlamb.
//
// All but deepspeed_lamb correct the bias of the moments in u. apex and NVIDIA's code first clip
// the global norm, as clip{lamb{}, 1.0, 0} and clip{nvlamb{}, 1.0, 0} do, without an epsilon; timm
// does so by default; the paper does not.
//
// u replaces the gradient in memory: the second pass reads u, and nothing reads the gradient after
// it.
#pragma once

#include <limits>
#include <string>
#include <string_view>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/math.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/describe_kinds.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/optim/trust_ratio.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::optim {

/// Updates the moments, writes u over the gradient, and returns it.
template <class Real>
struct lamb_direction {
  adam_moments<Real> moments;
  const Real* w;
  Real *m, *v, *u;
  Real decay;

  template <class At>
  constexpr typename At::number operator()(At at) const {
    const typename At::number before = at(w),
                              direction =
                                  at.clamped(moments.update(at, m, v, at(u)) + decay * before);
    at.put(u, direction);
    return direction;
  }
};

/// With the moments in the device's memory and the decay of a segment.
template <class Real>
struct lamb_direction_body {
  const adam_moments<Real>* moments;
  const Real* w;
  Real *m, *v, *u;
  Real decay;
  kinds decay_on;

  CORDEE_HOST_DEVICE lamb_direction<Real> for_segment(kind what, std::size_t) const {
    return {*moments, w, m, v, u, decay_on(what) ? decay : 0};
  }
};

/// w <- w - lr u
template <class Real>
struct descent {
  Real* w;
  const Real* u;
  Real learning_rate;

  template <class At>
  constexpr void operator()(At at) const {
    at.put(w, at.clamped(at(w) - learning_rate * at(u)));
  }
};
/// u <- scale u
template <class Real>
struct scaled_direction {
  Real* u;
  Real scale;

  template <class At>
  constexpr void operator()(At at) const {
    at.put(u, at.clamped(scale * at(u)));
  }
};
/// With the learning rate times the trust ratio of a segment.
template <class Optimizer, class Real>
struct lamb_descent_body {
  Optimizer optimizer;
  const step_info* info;
  const double *squared_weight_norms, *direction_squares;  // one per segment
  Real* w;
  const Real* u;

  CORDEE_HOST_DEVICE descent<Real> for_segment(kind what, std::size_t k) const {
    const double ratio = has_trust_ratio(optimizer, what)
                             ? optimizer.ratio(detail::core::sqrt(squared_weight_norms[k]),
                                               detail::core::sqrt(direction_squares[k]))
                             : 1;
    return {w, u, factor<Real>(info->learning_rate * ratio * optimizer.step_factor(*info))};
  }
};

/// u <- (1 - beta1) ratio u
template <class Optimizer, class Real>
struct lamb_ratio_body {
  Optimizer optimizer;
  const step_info* info;
  const double *squared_weight_norms, *direction_squares;  // one per segment
  Real* u;

  CORDEE_HOST_DEVICE scaled_direction<Real> for_segment(kind what, std::size_t k) const {
    double scale = 1 - optimizer.beta1;
    if (has_trust_ratio(optimizer, what))
      scale *= optimizer.ratio(detail::core::sqrt(squared_weight_norms[k]),
                               detail::core::sqrt(direction_squares[k]));
    if (Optimizer::form::corrects_step) scale *= root_of_sum(optimizer, *info);
    return {u, factor<Real>(scale)};
  }
};

template <class Optimizer, class Real, class D>
void lamb_accept(const Optimizer& optimizer, const optimizer_view<Real, D, 2>& view,
                 const step_info& info, typename D::stream s) {
  Real *const w = view.weights.data, *const u = view.grads.data;
  with_moments(optimizer, view, info, s, [&](const auto* moments) {
    const lamb_direction_body<Real> directions{moments,
                                               w,
                                               view.slots[0].data,
                                               view.slots[1].data,
                                               u,
                                               factor<Real>(optimizer.weight_decay),
                                               optimizer.decay_on};
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    segmented_squares<Real>(s, view.segments, directions, view.sums);
  });
  segmented_for<Real>(
      s, view.segments,
      lamb_descent_body<Optimizer, Real>{optimizer, core::step_info_of(view, info),
                                         view.squared_weight_norms.data, view.sums.data, w, u});
}

/// Limits of LAMB's trust ratio.
struct ratio_limits {
  /// Least trust ratio; 0: no limit. Range: finite, 0 <= least <= most, else usage_error. Default:
  /// as DeepSpeed (`deepspeed_lamb`).
  double least = 0;
  /// Largest trust ratio; infinity: no limit. Range: above 0, else usage_error. Default: as timm
  /// (`lambc`) and DeepSpeed (`deepspeed_lamb`).
  double most = std::numeric_limits<double>::infinity();

  [[nodiscard]] CORDEE_HOST_DEVICE double limited(double ratio) const {
    return std::clamp(ratio, least, most);
  }
  [[nodiscard]] std::string describe() const {
    return concat(least > 0 ? concat(", ratio at least ", least) : "",
                  detail::core::isfinite(most) ? concat(", ratio at most ", most) : "");
  }
};

struct lamb_form {
  static constexpr std::string_view name = "lamb";
  static constexpr double epsilon = 1e-6;
  static constexpr kinds adapt_on = kind::weight;
  static constexpr bool corrects_step = false;  // the bias of the moments, in the step and not in u
  static constexpr ratio_limits limits{};
};
struct nvlamb_form : lamb_form {
  static constexpr std::string_view name = "nvlamb";
  static constexpr kinds adapt_on = core::trainable;
};
struct lambc_form : lamb_form {
  static constexpr std::string_view name = "lambc";
  static constexpr ratio_limits limits{.most = 1};
};
struct deepspeed_lamb_form : nvlamb_form {
  static constexpr std::string_view name = "deepspeed_lamb";
  static constexpr double epsilon = 1e-8;
  static constexpr bool corrects_step = true;
  static constexpr ratio_limits limits{.least = 0.01, .most = 10};
};

/// LAMB with the segments, the limits and the bias correction of `Form`; see the aliases.
template <class Form>
struct basic_lamb {
  /// Which segments adapt, the ratio's limits, and where the bias is corrected.
  using form = Form;
  static constexpr agreement needs = agreement::exact;  ///< Steps on the mean gradient.
  static constexpr int slots = 2;                       ///< The moments m and v.
  static constexpr int direction_slots = 1;  ///< v alone, which `write_direction` updates.
  static constexpr norms_needed norms = norms_needed::before_accept;  ///< Weight norms.
  static constexpr bool capturable = true;                            ///< See OptimizerOn.

  /// Decay rate of the first moment m. Range: 0 <= beta1 < 1, else usage_error. Default: as Kingma
  /// and Ba 2014.
  double beta1 = 0.9;
  /// Decay rate of the second moment v. Range: 0 <= beta2 < 1, else usage_error. Default: as Kingma
  /// and Ba 2014.
  double beta2 = 0.999;
  /// Added to the root in u. Range: finite, above 0, else usage_error. Default: as Google's BERT;
  /// DeepSpeed for `deepspeed_lamb`.
  double epsilon = Form::epsilon;
  /// Weight decay: the factor of w in u. Range: finite, 0 or more, else usage_error. Default: as
  /// Google's BERT.
  double weight_decay = 0.01;
  kinds decay_on = kind::weight;  ///< Kinds of segments that decay; the others have weight decay 0.
  kinds adapt_on = Form::adapt_on;  ///< Kinds of segments with a trust ratio; the others' is 1.
  /// Whether segments without weight decay also have a trust ratio. False: as timm and apex.
  bool always_adapt = true;
  ratio_limits limits = Form::limits;  ///< Limits of the trust ratio.

  /// Updates m, v and w, and overwrites the gradient with u.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    lamb_accept(*this, v, info, s);
  }

  /// g <- (1 - beta1) ratio u, with u formed without the first moment
  template <class Real, class D>
  void write_direction(const optimizer_view<Real, D, slots>& v, const step_info& info,
                       typename D::stream s) const {
    with_moments(*this, v, info, s, [&](const auto* moments) {
      // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
      segmented_squares<Real>(s, v.segments, normalized_direction_body<Real>(moments, *this, v, 1),
                              v.sums);
    });
    segmented_for<Real>(
        s, v.segments,
        lamb_ratio_body<basic_lamb, Real>{*this, core::step_info_of(v, info),
                                          v.squared_weight_norms.data, v.sums.data, v.grads.data});
  }

  /// Returns the trust ratio of a segment with these norms of w and u.
  [[nodiscard]] CORDEE_HOST_DEVICE double ratio(double weight_norm, double direction_norm) const {
    return limits.limited(trust_ratio(1, weight_norm, direction_norm, 0, 0));
  }
  /// Returns the factor of the step besides the ratio: 1 except for `deepspeed_lamb`.
  [[nodiscard]] CORDEE_HOST_DEVICE double step_factor(const step_info& info) const {
    return Form::corrects_step ? bias_correction(*this, info) : 1;
  }

  /// Throws usage_error for an option outside its range.
  [[gnu::cold]] void check() const {
    check_adam(Form::name, *this);
    expects(limits.least >= 0 && detail::core::isfinite(limits.least) && limits.most > 0 &&
                limits.least <= limits.most,
            "lamb: the limits of the ratio are 0 <= least <= most, least finite, most above 0");
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat(Form::name, ", betas ", beta1, " and ", beta2, ", epsilon ", epsilon,
                  ", weight decay ", weight_decay, " inside the trust ratio",
                  adapt_on == core::trainable ? ", which adapts every segment" : "",
                  always_adapt ? "" : ", no trust ratio without weight decay", limits.describe(),
                  describe_kinds("decays", decay_on),
                  adapt_on == core::trainable ? "" : describe_kinds("adapts", adapt_on));
  }
};

}  // namespace detail::optim

/// LAMB with trust ratios for weights only, as Google's BERT.
using lamb = detail::optim::basic_lamb<detail::optim::lamb_form>;
/// LAMB with a trust ratio for every segment, as the paper, optax and NVIDIA's code.
using nvlamb = detail::optim::basic_lamb<detail::optim::nvlamb_form>;
/// `lamb` with a ratio of at most 1, as timm's trust_clip.
using lambc = detail::optim::basic_lamb<detail::optim::lambc_form>;
/// DeepSpeed's LAMB: a limited ratio, without bias correction, on every segment.
using deepspeed_lamb = detail::optim::basic_lamb<detail::optim::deepspeed_lamb_form>;

}  // namespace cordee::inline CORDEE_ABI
