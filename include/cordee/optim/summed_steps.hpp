// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The exchange of sums of local steps under a constant second moment (zero_one_adam.hpp). With
// D = sqrt(v) + epsilon, the weights a of the last exchange and the sum S of learning rates since:
//
//   g <- (a - w) D                    what a rank exchanges, S times a mean of its moments m
//   m <- u / S,  w, a <- a - u / D    with the mean u of the ranks' g
//
// Where v is zero nothing is exchanged or moved.
#pragma once

#include <cstddef>

#include <cordee/core/segment.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI::detail::optim {

/// x <- (1 - lr weight_decay) x where segments decay
template <class Real>
struct decayed_numbers {
  Real* x;
  const step_info* info;
  double weight_decay;
  kinds decay_on;
  Real keep = 1;

  CORDEE_HOST_DEVICE decayed_numbers for_segment(kind what, std::size_t) const {
    return {x, info, weight_decay, decay_on,
            decay_on(what) ? factor<Real>(1 - info->learning_rate * weight_decay) : Real{1}};
  }
  [[nodiscard]] CORDEE_HOST_DEVICE bool is_idle() const { return keep == 1; }
  template <class At>
  constexpr void operator()(At at) const {
    at.put(x, at.clamped(keep * at(x)));
  }
};
/// g <- (a - w) (sqrt(v) + epsilon)
template <class Real>
struct summed_steps {
  const Real *w, *a, *v;
  Real* g;
  Real epsilon;

  template <class At>
  constexpr void operator()(At at) const {
    const typename At::number second = at(v);
    at.put(g,
           at.clamped(at.sign(second) * at.clamped(at(a) - at(w)) * (at.root(second) + epsilon)));
  }
};
/// m <- u / S, unless S is 0;   w, a <- a - u / (sqrt(v) + epsilon)
template <class Real>
struct exchanged_steps {
  Real *w, *m, *a;
  const Real *v, *u;
  const double* sums;  // S, one per segment
  Real epsilon, keep = 0, inverse = 0;

  CORDEE_HOST_DEVICE exchanged_steps for_segment(kind, std::size_t k) const {
    const bool moved = sums[k] > 0;
    return {w,
            m,
            a,
            v,
            u,
            sums,
            epsilon,
            moved ? Real{0} : Real{1},
            moved ? factor<Real>(1 / sums[k]) : Real{0}};
  }
  template <class At>
  constexpr void operator()(At at) const {
    const typename At::number sum = at.clamped(at(u)), second = at(v),
                              step = at.sign(second) * sum / (at.root(second) + epsilon),
                              next = at.clamped(at(a) - at.clamped(step));
    at.put(m, at.clamped(keep * at(m) + at.clamped(inverse * sum)));
    at.put(w, next);
    at.put(a, next);
  }
};
/// sums[k] <- sums[k] + learning rate; without `info` 0
struct rate_sum_op {
  const step_info* info;
  double* sums;

  CORDEE_HOST_DEVICE void operator()(std::size_t k) const {
    sums[k] = info == nullptr ? 0 : sums[k] + info->learning_rate;
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::optim
