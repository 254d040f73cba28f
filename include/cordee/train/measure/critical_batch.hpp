// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The critical batch size, fitted to runs at several batches that reached one target, each with its
// own best learning rate and schedule (McCandlish et al. 2018; Shallue et al. 2018).
//
//   S(B) = S_min + E_min / B      updates to the target      (S/S_min - 1)(E/E_min - 1) = 1
//   E(B) = B S(B)                 samples to the target      B_crit = E_min / S_min
//
// S_min and E_min minimize the sum of (1 - S(B_i)/S_i)^2: least squares of relative errors, since
// the numbers of updates differ by orders of magnitude. At B_crit both are twice their minimum.
#pragma once

#include <span>

#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>

namespace cordee::inline CORDEE_ABI {

/// The fit, and what it predicts for other batches.
struct critical_batch {
  /// A run that reached the target.
  struct run {
    /// Samples of an update, and updates to the target. Range: above 0, else usage_error.
    double batch = 0, updates = 0;
  };

  /// S_min and E_min, the limits for large and small batches.
  double fewest_updates = 0, fewest_samples = 0;
  double relative_error = 0;  ///< Root mean square of 1 - S(B_i)/S_i over the runs.

  /// B_crit: beyond it, more workers save less time than they cost samples.
  [[nodiscard]] double batch() const { return fewest_samples / fewest_updates; }
  /// S(B), updates to the target at batch `at`.
  [[nodiscard]] double updates(double at) const { return fewest_updates + fewest_samples / at; }
  /// E(B), samples to the target at batch `at`.
  [[nodiscard]] double samples(double at) const { return at * updates(at); }

  /// Fits the runs. @throws usage_error for a run without positive batch and updates, or for runs
  /// at only one batch; error if no positive S_min and E_min fit them.
  [[nodiscard]] static critical_batch fit(std::span<const run> runs);
};

inline critical_batch critical_batch::fit(std::span<const run> runs) {
  // Normal equations of u S_min + v E_min = 1, u = 1/S_i, v = 1/(B_i S_i).
  double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
  for (const run& r : runs) {
    expects(r.batch > 0 && r.updates > 0 && detail::core::isfinite(r.batch * r.updates),
            "critical_batch: a run has no positive batch and number of updates");
    const double u = 1 / r.updates, v = u / r.batch;
    uu += u * u;
    uv += u * v;
    vv += v * v;
    u1 += u;
    v1 += v;
  }
  const double determinant = uu * vv - uv * uv;
  // With runs at only one batch, u and v are proportional up to rounding.
  expects(runs.size() >= 2 && determinant > 1e-12 * uu * vv,
          "critical_batch: needs runs at two different batches or more");
  critical_batch result{(u1 * vv - v1 * uv) / determinant, (v1 * uu - u1 * uv) / determinant};
  if (!(result.fewest_updates > 0 && result.fewest_samples > 0))
    throw error(
        "critical_batch: the runs have no critical batch between them: updates must fall with "
        "the batch, and samples rise; measure smaller or larger batches");
  double squares = 0;
  for (const run& r : runs) {
    const double off = 1 - result.updates(r.batch) / r.updates;
    squares += off * off;
  }
  result.relative_error = detail::core::sqrt(squares / static_cast<double>(runs.size()));
  return result;
}

}  // namespace cordee::inline CORDEE_ABI
