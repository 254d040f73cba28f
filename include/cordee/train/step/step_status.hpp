// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The status of a step, in the memory of the device that holds its gradients: the step's counters
// and learning rate, which kernels read, and the test of its gradients, which kernels write.
//
//   norms of some segments are recorded:  finite:      squared_global_norm += their sum
//                                         not finite:  ++nonfinite_norms
//
// Whether a step is applied is decided on the device; the host reads the status after it has
// launched everything. What differs from step to step is an argument of no launch but the first one
// (begin_step_op), so the others can be captured in a graph.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cordee/core/config.hpp>
#include <cordee/core/limits.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/train/step/loss_scale.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

struct step_status {
  step_info info{};
  loss_scale scale{};                     // this step's; after rescale_op the next one's
  float unscale = 1;                      // 1 / scale, rounded to single precision
  double squared_global_norm = 0;         // squared norm of the gradients recorded so far
  double squared_local_norm = 0;          // of this rank's own, before the reduction, if measured
  std::int32_t nonfinite_norms = 0;       // recordings in this step that are NaN or infinite
  std::int32_t last_norm_nonfinite = 0;   // whether the last one is
  std::int32_t nonfinite_statistics = 0;  // whether a running statistic of this rank would be
};

/// Resets the status at the beginning of a step; the loss scale is kept.
struct begin_step_op {
  step_info info;
  step_status* status;

  CORDEE_HOST_DEVICE void operator()(std::size_t) const {
    status->info = info;
    status->squared_global_norm = status->squared_local_norm = 0;
    status->nonfinite_norms = status->last_norm_nonfinite = status->nonfinite_statistics = 0;
  }
};

/// Records `n` squared norms. A sum that is not finite is added to squared_global_norm only if
/// `keep_nonfinite`: there the step is skipped as a whole, elsewhere the bucket counts as zero.
struct record_norms_op {
  const double* squares;
  std::size_t n;
  bool keep_nonfinite;
  step_status* status;

  CORDEE_HOST_DEVICE void operator()(std::size_t) const {
    double sum = 0;
    for (std::size_t k = 0; k < n; ++k) sum += squares[k];
    const bool finite = core::isfinite(sum);
    status->last_norm_nonfinite = finite ? 0 : 1;
    status->nonfinite_norms += status->last_norm_nonfinite;
    if (finite || keep_nonfinite) status->squared_global_norm += sum;
  }
};

/// Adds `n` squared norms of this rank's own gradient.
struct add_local_norms_op {
  const double* squares;
  std::size_t n;
  step_status* status;

  CORDEE_HOST_DEVICE void operator()(std::size_t) const {
    for (std::size_t k = 0; k < n; ++k) status->squared_local_norm += squares[k];
  }
};

/// The loss scale of the next step, once all norms of this one are recorded.
struct rescale_op {
  loss_scaling options;
  step_status* status;

  CORDEE_HOST_DEVICE void operator()(std::size_t) const {
    status->scale.update(options, status->nonfinite_norms == 0);
    status->unscale = status->scale.inverse();
  }
};

/// Spoils a rank's gradient where its forward passes made running statistics `now` not finite that
/// were finite `before`: the test of the gradient then finds it, on every rank that gets it.
template <class Real>
struct check_statistics_op {
  const Real *now, *before;
  Real* gradient;
  step_status* status;

  CORDEE_HOST_DEVICE void operator()(std::size_t i) const {
    if (core::isfinite(now[i]) || !core::isfinite(before[i])) return;
    *gradient = core::limits<Real>::quiet_NaN();
    status->nonfinite_statistics = 1;
  }
};

/// to <- from, or to <- 0 if `from` is null, where the flag is set
template <class T>
struct replace_op {
  const std::int32_t* flag;
  const T* from;
  T* to;

  CORDEE_HOST_DEVICE void operator()(std::size_t i) const {
    if (*flag != 0) to[i] = from == nullptr ? T{} : from[i];
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::train
