// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A learning rate that follows a batch which changes during the run.
//
//   lr(e) = (B(e) / B(0))^exponent s(e)
//
// At exponent 0 this is s itself: the batch grows instead of a decay (Smith et al. 2017).
#pragma once

#include <cordee/core/batch_schedule.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

/// A schedule scaled with a batch whose stages are known in advance.
template <Schedule S>
struct batch_scaled {
  S inner{};  ///< The schedule that is multiplied.
  /// The loader's stages, loader_options::batch_schedule. Range: stages in order, with factors of 1
  /// or more, else usage_error.
  batch_schedule batch{};
  /// Exponent of the batch's growth; 1: linear rule, 1/2: square root, 0: no effect. Range: 0 <=
  /// exponent <= 1, else usage_error.
  double exponent = 1;

  /// The inner learning rate times the power of the batch's growth.
  double operator()(double epoch) const {
    batch.check();
    expects(exponent >= 0 && exponent <= 1, "batch_scaled: .exponent must be from 0 to 1");
    return detail::core::pow(batch(epoch), exponent) * inner(epoch);
  }
  /// The later of the inner schedule's end and the last stage's beginning.
  [[nodiscard]] double end_epoch() const {
    const double end = detail::schedule::end_epoch_of(inner);
    return batch.begin() == batch.end() ? end : detail::core::fmax(end, batch.end()[-1].epoch);
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("times (B/B0)^", exponent, ", where B is ", batch.describe(), ": ",
                  cordee::describe(inner));
  }
};
template <class S>
batch_scaled(S, batch_schedule, double = 1) -> batch_scaled<S>;

}  // namespace cordee::inline CORDEE_ABI
