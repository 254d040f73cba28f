// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A callback that ends a run whose validation has stopped improving (Prechelt, "Early stopping -
// but when?", 1998).
#pragma once

#include <cstdio>
#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/core/math.hpp>
#include <cordee/train/callbacks/best_epoch.hpp>

namespace cordee::inline CORDEE_ABI {

/// Ends the run, on all ranks at once, after `patience` consecutive epochs in which the validation
/// did not improve on its best value by more than `minimum_delta`. Each fit, including a resumed
/// one, counts from its own first epoch. Requires a `validation` among fit's arguments.
///
///   run.fit(feed, 90, validation{held_out}, early_stopping{.patience = 5},
///           best{"best.safetensors"});
struct early_stopping {
  /// Consecutive epochs without improvement that end the run. Unit: epochs. Range: 1 or more, else
  /// usage_error.
  int patience = 5;
  /// Least improvement: an epoch must beat the best value by more than this. Range: finite, 0 or
  /// more, else usage_error.
  double minimum_delta = 0;
  validation_measure measure = validation_measure::accuracy;  ///< Which measure must improve.
  detail::train::best_epoch seen{};  ///< State: the best value of this fit, and the epochs since.

  /// Called by a fit without `validation`. @throws error.
  [[noreturn]] void refuse_without_validation() const {
    detail::train::refuse_without_validation(measure, "early_stopping");
  }
  /// Settings that must agree on all ranks.
  [[nodiscard, gnu::cold]] std::string rank_settings() const {
    return concat("early_stopping, .patience ", patience, ", .minimum_delta ", minimum_delta,
                  ", of the ", detail::train::name_of(measure));
  }

  /// Checks the options. @throws usage_error for one out of its range.
  template <class Run>
  void check_on_all_ranks(Run&, double) {
    expects(patience > 0, "early_stopping: patience is at least one epoch");
    expects(minimum_delta >= 0 && detail::core::isfinite(minimum_delta),
            "early_stopping: minimum_delta is negative, NaN or infinite");
  }
  /// Restarts the count.
  template <class Run>
  void begin_on_all_ranks(Run&, double) {
    seen = {};
  }
  /// Returns whether the run ends; rank 0 then prints a line to standard error.
  template <class Run>
  bool epoch_on_all_ranks(Run& run, const epoch_record& e) {
    seen.add(measure, detail::train::measure(measure, e, "early_stopping"), e.last.info.epoch,
             minimum_delta);
    if (seen.since < patience) return false;
    if (run.comm().rank() == 0)
      std::fprintf(stderr, "early_stopping: the validation has not improved for %d epochs\n",
                   patience);
    return true;
  }
};

}  // namespace cordee::inline CORDEE_ABI
