// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A global batch that grows with the gradient noise scale, and a learning rate that follows
// (McCandlish et al. 2018; Smith et al. 2017).
//
//   after an epoch with the noise scale N, of standard error E, in samples:
//     2 B <= share (N - E)  and  2 B <= most B(0):   the next epoch begins with 2 B
//   lr(e) = (B(e) / B(0))^exponent s(e)
//
// At B = N training takes twice the fewest updates and twice the fewest samples
// (train/step/gradient_noise.hpp). N grows as the gradient falls, so the batch does not shrink
// again. The linear rule, exponent 1, holds for B well below N.
//
// Pass it to the trainer, not inside another schedule, with measure_gradient_noise; `fit` sets the
// loader's batches. Decisions are stages of a batch_schedule: passing the same stages to the loader
// and to batch_scaled gives the same run.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include <cordee/core/batch_schedule.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

/// A schedule that doubles the global batch as the gradient noise grows, and scales with it.
template <Schedule S>
struct adaptive_batch {
  static_assert(
      !detail::schedule::AdaptiveSchedule<S>,
      "adaptive_batch: the schedule inside observes nothing; plateau and auto_wu are used "
      "without it");
  /// The schedule at the first batch. Range: not an adaptive one, else a compile error.
  S inner{};
  /// Largest batch as a share of the noise scale. Range: finite, above 0, else usage_error.
  double share = 1;
  /// Largest batch. Unit: first global batches. Range: 1 or more, else usage_error.
  int most = 16;
  /// Exponent of the batch's growth; 1: linear rule, 1/2: square root, 0: no effect. Range: 0 <=
  /// exponent <= 1, else usage_error.
  double exponent = 1;

  /// State: epoch and factor of each stage decided so far, alternating.
  std::vector<double> decided{};

  /// The inner learning rate times the power of the batch's growth so far.
  double operator()(double epoch) const {
    expects(share > 0 && detail::core::isfinite(share), "adaptive_batch: .share must be above 0");
    expects(most >= 1, "adaptive_batch: .most, times the first batch, is below 1");
    expects(exponent >= 0 && exponent <= 1, "adaptive_batch: .exponent must be from 0 to 1");
    return detail::core::pow(batch_decided()(epoch), exponent) * inner(epoch);
  }
  /// The inner schedule's end, if its last learning rate is 0; else infinity, as the batch may
  /// still grow.
  [[nodiscard]] double end_epoch() const {
    const double end = detail::schedule::end_epoch_of(inner);
    return detail::core::isfinite(end) && inner(end) == 0 ? end
                                                          : std::numeric_limits<double>::infinity();
  }
  /// At an epoch's end, doubles the batch from the next epoch on if the noise allows it.
  void observe(const observation& seen) {
    if (!seen.epoch_loss) return;
    const double doubled = decided.empty() ? 2 : 2 * decided.back();
    if (doubled <= most && doubled <= share * seen.noise_batches)
      decided.insert(decided.end(), {detail::core::floor(seen.epoch) + 1, doubled});
  }
  /// `decided`.
  [[nodiscard]] std::vector<double>& state() { return decided; }

  /// Returns the stages so far. @throws usage_error for a state that is not a list of stages.
  [[nodiscard]] batch_schedule batch_decided() const {
    batch_schedule batch{};
    expects(decided.size() % 2 == 0 && decided.size() / 2 <= batch_schedule::most_stages,
            "adaptive_batch: the state has no epoch and factor for each of at most 32 stages");
    for (std::size_t k = 0; k < decided.size() / 2; ++k)
      batch.stages[k] = {decided[2 * k], static_cast<int>(decided[2 * k + 1])};
    batch.check();
    return batch;
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("times (B/B0)^", exponent,
                  ", where B doubles after an epoch as long as it stays ", "within ", share,
                  " times the gradient noise scale and ", most, " B0: ", cordee::describe(inner));
  }
};
template <class S>
adaptive_batch(S) -> adaptive_batch<S>;
template <class S>
adaptive_batch(S, double) -> adaptive_batch<S>;
template <class S>
adaptive_batch(S, double, int) -> adaptive_batch<S>;
template <class S>
adaptive_batch(S, double, int, double) -> adaptive_batch<S>;

}  // namespace cordee::inline CORDEE_ABI
