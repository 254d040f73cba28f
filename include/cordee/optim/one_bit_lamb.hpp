// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// 1-bit LAMB (Li et al. 2021): LAMB until its second moment has settled, then a momentum that the
// ranks exchange compressed, with error feedback, under that second moment; what a trust ratio
// would follow is read from a second moment f of the exchanged momenta. Of each tensor:
//
//   before epoch start_epoch     m <- beta1 m + (1 - beta1) g      g: the exact mean gradient
//                                v <- beta2 v + (1 - beta2) g^2
//                                u = m / (sqrt(v) + epsilon) + weight_decay w
//                                r = |w| / |u|, within min_coeff .. max_coeff; 1 if either is 0
//                                c <- coeff_beta c + (1 - coeff_beta) r, where r is not 1
//   from there on                m <- compressed mean of beta1 m + (1 - beta1) g_i;   v, c stay
//                                f <- beta2 f + (1 - beta2) ((m - beta1 m_old) / (1 - beta1))^2
//                                f begins as v
//                                s = max of (sqrt(v) + epsilon) / (sqrt(f) + epsilon)
//                                s <- 1 + (s - 1) min(1, |u - weight_decay w| / |u|)
//                                s within factor_min .. factor_max, then within a share of
//                                factor_threshold of the step before, at first of 1;   r = c s
//   each step                    w <- w - lr r u
//
//   trainer{net, one_bit_lamb{.start_epoch = 5}, schedule,
//           two_stage{ring{comm}, gathered{comm, scaled_sign{}}, 5}}
//
// This is DeepSpeed's OnebitLamb, whose moments are not corrected. It scales the tensors of a
// momentum to one magnitude before it compresses all of them as one; the codes of `gathered` have a
// magnitude for each tensor, and need no scale. Where v is zero m counts as zero, as in
// one_bit_adam.hpp, and the quotient as 1 (DeepSpeed's mask). A tensor whose r has always been 1
// has c = 1; in DeepSpeed c is 0, and the tensor stays as it is.
#pragma once

#include <cstddef>
#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/describe_kinds.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/one_bit_adam.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/optim/trust_ratio.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::optim {

/// What one number contributes to the figures of its tensor: u, u without decay, the quotient.
template <class Number>
struct lamb_terms {
  Number step, direction, quotient;
};
/// m, v and f; then u over g. In the compressed stage g is the ranks' new m. The quotient is formed
/// in that stage alone.
template <class Real>
struct one_bit_lamb_moments {
  const Real* w;
  Real *m, *v, *f, *u;
  Real beta1, one_minus_beta1, beta2, one_minus_beta2, epsilon, decay;
  bool compressed, begins;  // begins: f is still v
  Real largest = largest_gradient<Real>();

  template <class At>
  constexpr lamb_terms<typename At::number> operator()(At at) const {
    using number = typename At::number;
    const number given = at.clamped(at(u), largest), old = at(m), before = at(v);
    number first = beta1 * old + one_minus_beta1 * given, second = before, quotient = at.zero();
    if (compressed) {
      first = given;
      const number gradient =
          at.clamped(at.sign(before) * (given - beta1 * old) / one_minus_beta1, largest);
      const number fresh =
          beta2 * (begins ? before : at(f)) + one_minus_beta2 * (gradient * gradient);
      at.put(f, fresh);
      const number known = at.sign(before);
      quotient =
          known * (at.root(before) + epsilon) / (at.root(fresh) + epsilon) + (Real{1} - known);
    } else {
      second = beta2 * before + one_minus_beta2 * (given * given);
      at.put(v, second);
    }
    at.put(m, first);
    const number direction = at.clamped(at.sign(second) * first / (at.root(second) + epsilon)),
                 step = at.clamped(direction + decay * at(w));
    at.put(u, step);
    return {step, direction, quotient};
  }
};
/// With the decay of a segment, and whether its compressed stage begins.
template <class Real>
struct one_bit_lamb_body {
  one_bit_lamb_moments<Real> moments;
  kinds decay_on;
  const double* numbers;  // c and s of each segment; s: 0 before the compressed stage

  CORDEE_HOST_DEVICE one_bit_lamb_moments<Real> for_segment(kind what, std::size_t k) const {
    one_bit_lamb_moments<Real> own = moments;
    own.decay = decay_on(what) ? moments.decay : 0;
    own.begins = numbers[2 * k + 1] == 0;
    return own;
  }
};

/// For a tensor, the squared norms of u and of u without decay, and the largest quotient; the last
/// two of the compressed stage alone.
struct lamb_figures {
  double squared_step, squared_direction, largest_quotient;

  lamb_figures& operator+=(const lamb_figures& other) {
    squared_step += other.squared_step;
    squared_direction += other.squared_direction;
    largest_quotient = std::max(largest_quotient, other.largest_quotient);
    return *this;
  }
};
/// Updates the moments of numbers first .. last - 1 and returns their figures.
template <class Real>
lamb_figures update_moments(const one_bit_lamb_moments<Real>& moments, std::size_t first,
                            std::size_t last) {
  constexpr std::size_t block = 256;
  Real steps[block], directions[block], quotients[block] = {};  // quotients: largest of all blocks
  ops::dot_product step, direction;
  for (std::size_t i = first; i < last; i += block) {
    const std::size_t n = std::min(block, last - i);
    ops::simd_for_each<Real>(i, i + n, [&](auto at) {
      const lamb_terms terms = moments(at);
      const decltype(at) local{at.i - i};
      local.put(steps, terms.step);
      if (!moments.compressed) return;
      local.put(directions, terms.direction);
      const auto before = local(quotients);
      local.put(quotients, terms.quotient > before ? terms.quotient : before);
    });
    step.add(steps, steps, n);
    if (moments.compressed) direction.add(directions, directions, n);
  }
  double largest = 0;
  for (const Real quotient : quotients) largest = std::max(largest, static_cast<double>(quotient));
  return {step.total(), direction.total(), largest};
}

/// w <- w - lr r u with r of a segment
template <class Real>
struct one_bit_lamb_descent {
  Real* w;
  const Real* u;
  double learning_rate;
  const double* ratios;  // one per segment

  CORDEE_HOST_DEVICE descent<Real> for_segment(kind, std::size_t k) const {
    return {w, u, factor<Real>(learning_rate * ratios[k])};
  }
};

}  // namespace detail::optim

/// LAMB whose momentum is exchanged compressed, under a second moment and a ratio that stay.
struct one_bit_lamb {
  static constexpr agreement needs = agreement::exact;  ///< Steps on a mean.
  static constexpr int slots = 3;                       ///< The moments m and v, then f.
  static constexpr int segment_numbers = 2;             ///< c and the last s.
  static constexpr bool eager = true;                   ///< See OptimizerOn.
  static constexpr norms_needed norms = norms_needed::before_accept;  ///< Weight norms.
  /// The warm-up needs an exact mean: two_stage, or a reducer that never rounds.
  static constexpr bool compresses_momentum = true;
  static constexpr bool whole_tensors = true;  ///< Each rank needs all of m: not over sharded.

  /// Decay rate of the first moment m. Range: 0 <= beta1 < 1, else usage_error. Default: as Kingma
  /// and Ba 2014.
  double beta1 = 0.9;
  /// Decay rate of the second moments v, during warm-up, and f. Range: 0 <= beta2 < 1, else
  /// usage_error. Default: as Kingma and Ba 2014.
  double beta2 = 0.999;
  /// Added to the roots of v and f. Range: finite, above 0, else usage_error. Default: as Kingma
  /// and Ba 2014.
  double epsilon = 1e-8;
  /// Factor of w in u. Range: finite, 0 or more, else usage_error. Default: as DeepSpeed.
  double weight_decay = 0;
  kinds decay_on = kind::weight;  ///< Kinds of segments that decay; the others have weight decay 0.
  /// Epoch at which the warm-up ends, also in the reducer's two_stage. Unit: epochs. Range: finite,
  /// 0 or more, else usage_error.
  double start_epoch = 1;
  /// Largest ratio r of the warm-up. Range: finite, at least min_coeff, else usage_error. Default:
  /// as DeepSpeed.
  double max_coeff = 10;
  /// Least ratio r of the warm-up. Range: above 0, else usage_error. Default: as DeepSpeed.
  double min_coeff = 0.01;
  /// Share of c that a step of the warm-up keeps. Range: 0 <= coeff_beta < 1, else usage_error.
  /// Default: as DeepSpeed. It is best at most 1 - 1 / n for a warm-up of n steps.
  double coeff_beta = 0.9;
  /// Largest factor s of the compressed stage. Range: finite, at least factor_min, else
  /// usage_error. Default: as DeepSpeed.
  double factor_max = 4;
  /// Least factor s of the compressed stage. Range: above 0, else usage_error. Default: as
  /// DeepSpeed.
  double factor_min = 0.5;
  /// Share by which s may differ from that of the step before. Range: 0 <= factor_threshold < 1,
  /// else usage_error. Default: as DeepSpeed.
  double factor_threshold = 0.1;

  /// Whether the ranks exchange momenta in this step.
  [[nodiscard]] CORDEE_HOST_DEVICE bool compresses(const step_info& info) const {
    return info.epoch >= start_epoch;
  }
  /// Proposes the gradient, or the rank's own momentum in its place.
  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, slots>& v, const step_info& info,
                           typename D::stream s) const {
    return detail::optim::gradient_or_momentum(*this, v, info, s);
  }
  /// Updates the moments, the ratio and w; overwrites the gradient with u.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    static_assert(D::host_memory,
                  "one_bit_lamb: the largest quotient of a tensor is found on a CPU alone: use "
                  "one_bit_adam on a GPU");
    double* const numbers = detail::optim::segment_numbers_in<one_bit_lamb>(v, "one_bit_lamb");
    const detail::optim::one_bit_lamb_body<Real> body{
        {v.weights.data, v.slots[0].data, v.slots[1].data, v.slots[2].data, v.grads.data,
         static_cast<Real>(beta1), static_cast<Real>(1 - beta1), static_cast<Real>(beta2),
         static_cast<Real>(1 - beta2), detail::optim::nonzero_epsilon<Real>(epsilon),
         detail::optim::factor<Real>(weight_decay), compresses(info), false},
        decay_on,
        numbers};
    detail::core::pod_vector<detail::optim::lamb_figures> figures;  // (segments)
    figures.resize(v.segments.size());
    detail::ops::segmented_sums(
        s, v.segments, span_on<detail::optim::lamb_figures, cpu>{figures.data(), figures.size()},
        [&](std::size_t k, std::size_t first, std::size_t last) {
          return detail::optim::update_moments(body.for_segment(v.segments[k].kind, k), first,
                                               last);
        });
    for (std::size_t k = 0; k < v.segments.size(); ++k)
      v.sums[k] = ratio(figures[k], detail::core::sqrt(v.squared_weight_norms[k]), numbers[2 * k],
                        numbers[2 * k + 1], compresses(info));
    segmented_for<Real>(s, v.segments,
                        detail::optim::one_bit_lamb_descent<Real>{v.weights.data, v.grads.data,
                                                                  info.learning_rate, v.sums.data});
  }

  /// Returns r of a tensor with these figures and this norm of its weights, and updates its c
  /// (`average`) and s (`last`).
  double ratio(const detail::optim::lamb_figures& figures, double weight_norm, double& average,
               double& last, bool compressed) const {
    const double step_norm = detail::core::sqrt(figures.squared_step);
    if (!compressed) {
      const double quotient = detail::optim::trust_ratio(1, weight_norm, step_norm, 0, 0),
                   r = weight_norm == 0 || step_norm == 0
                           ? 1
                           : std::clamp(quotient, min_coeff, max_coeff);
      if (r != 1) average = coeff_beta * average + (1 - coeff_beta) * r;
      return r;
    }
    const double share =
        step_norm > 0 ? std::min(1.0, detail::core::sqrt(figures.squared_direction) / step_norm)
                      : 1;
    const double before = last == 0 ? 1 : last,
                 s = std::clamp(figures.largest_quotient * share + (1 - share), factor_min,
                                factor_max);
    last = std::clamp(s, before * (1 - factor_threshold), before * (1 + factor_threshold));
    return (average == 0 ? 1 : average) * last;
  }

  /// Throws usage_error for an option outside its range.
  [[gnu::cold]] void check() const {
    using detail::core::isfinite;
    detail::optim::check_adam("one_bit_lamb", *this);
    detail::optim::expects_not_negative("one_bit_lamb", "start_epoch", start_epoch);
    detail::optim::expects_decay_rate("one_bit_lamb", "coeff_beta", coeff_beta);
    detail::optim::expects_decay_rate("one_bit_lamb", "factor_threshold", factor_threshold);
    detail::optim::expects_positive("one_bit_lamb", "min_coeff", min_coeff);
    detail::optim::expects_positive("one_bit_lamb", "factor_min", factor_min);
    expects(isfinite(max_coeff) && max_coeff >= min_coeff,
            "one_bit_lamb: max_coeff must be finite and at least min_coeff");
    expects(isfinite(factor_max) && factor_max >= factor_min,
            "one_bit_lamb: factor_max must be finite and at least factor_min");
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("1-bit LAMB, betas ", beta1, " and ", beta2, ", epsilon ", epsilon,
                  ", weight decay ", weight_decay, " inside the trust ratio",
                  detail::optim::describe_kinds("decays", decay_on), ", ratio ", min_coeff, " to ",
                  max_coeff, ", averaged by ", coeff_beta,
                  "; momenta exchanged, under a constant second moment, from epoch ", start_epoch,
                  ", ratio times ", factor_min, " to ", factor_max, ", changed by at most ",
                  factor_threshold, " a step");
  }
};

}  // namespace cordee::inline CORDEE_ABI
