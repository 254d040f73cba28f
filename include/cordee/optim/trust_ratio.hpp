// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The trust ratio of LARS and LAMB (You et al. 2017, 2019), from the norms of one segment.
//
//   ratio = trust_coefficient |w| / (|g| + weight_decay |w| + epsilon)
//
// The denominator is a sum of norms, not the norm of the sum, but in lars_norm_of_sum.
#pragma once

#include <cstddef>

#include <cordee/core/config.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/momentum.hpp>

namespace cordee::inline CORDEE_ABI::detail::optim {

/// Returns 1 where a norm is zero, where the quotient is not finite, and where |g| is not finite: a
/// mixing optimizer counts such a gradient of its own rank as zero.
CORDEE_HOST_DEVICE inline double trust_ratio(double trust_coefficient, double weight_norm,
                                             double grad_norm, double decay, double epsilon) {
  if (weight_norm == 0 || grad_norm == 0 || !core::isfinite(grad_norm)) return 1;
  const double ratio =
      trust_coefficient * weight_norm / (grad_norm + decay * weight_norm + epsilon);
  return core::isfinite(ratio) ? ratio : 1;
}

/// Whether a segment of this kind has a trust ratio: every kind in `adapt_on`, or, without
/// `always_adapt`, only those of them that decay, as in timm and apex.
template <class Optimizer>
CORDEE_HOST_DEVICE bool has_trust_ratio(const Optimizer& optimizer, kind what) {
  bool by_decay = true;
  if constexpr (requires { optimizer.always_adapt; })  // of an optimizer of your own: always
    by_decay = optimizer.always_adapt || (optimizer.weight_decay != 0 && optimizer.decay_on(what));
  return optimizer.adapt_on(what) && by_decay;
}

/// g + decay w
template <class Real>
struct decayed_value {
  const Real *w, *g;
  Real decay;

  template <class At>
  constexpr typename At::number operator()(At at) const {
    return at.clamped(at(g) + decay * at(w));
  }
};

/// `arithmetic` completed for segment k by set(decay, learning rate, trust ratio). The norms are in
/// the device's memory.
template <class Optimizer, class Arithmetic>
struct trust_ratio_body {
  Optimizer optimizer;
  const double *squared_weight_norms, *squared_grad_norms;  // one per segment
  const step_info* info;
  Arithmetic arithmetic;

  CORDEE_HOST_DEVICE Arithmetic for_segment(kind what, std::size_t k) const {
    const double grad_norm = core::sqrt(squared_grad_norms[k]);
    double decay = optimizer.decay_on(what) ? optimizer.weight_decay : 0, ratio = 1;
    if (has_trust_ratio(optimizer, what)) {
      ratio = optimizer.ratio(core::sqrt(squared_weight_norms[k]), grad_norm, decay,
                              info->learning_rate);
      if (Optimizer::form::skips_zero_norms && grad_norm == 0) decay = 0;
    }
    Arithmetic result = arithmetic;
    result.set(decay, info->learning_rate, ratio);
    return result;
  }
};
template <class Optimizer, class Real, class D, class Arithmetic>
void for_segments_with_ratio(const Optimizer& optimizer, const optimizer_view<Real, D, 1>& v,
                             const step_info& info, const Arithmetic& arithmetic,
                             typename D::stream s) {
  // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
  if constexpr (Optimizer::form::norm_of_sum)
    segmented_squares<Real>(
        s, v.segments,
        decay_by_kind{optimizer.decay_on,
                      decayed_value<Real>{v.weights.data, v.grads.data,
                                          factor<Real>(optimizer.weight_decay)}},
        v.sums);
  segmented_for<Real>(s, v.segments,
                      trust_ratio_body<Optimizer, Arithmetic>{
                          optimizer, v.squared_weight_norms.data,
                          Optimizer::form::norm_of_sum ? v.sums.data : v.squared_grad_norms.data,
                          core::step_info_of(v, info), arithmetic});
}

}  // namespace cordee::inline CORDEE_ABI::detail::optim
