// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A callback that measures the time to accuracy (Coleman et al., "DAWNBench", 2017; the quality
// target of MLPerf).
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include <cordee/core/clock.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/decimal.hpp>
#include <cordee/core/error.hpp>
#include <cordee/train/callbacks/best_epoch.hpp>
#include <cordee/train/callbacks/record.hpp>

namespace cordee::inline CORDEE_ABI {

/// Records when the validation first reaches `accuracy` (top-1), prints it to standard error, and
/// ends the run there, on all ranks at once, unless `stops` is false. Seconds are those of this
/// fit, evaluations included, by each rank's clock; they exclude the time before a resume, whereas
/// steps and epochs include it. Requires a `validation` among fit's arguments.
///
///   target_accuracy target{0.90};
///   run.fit(feed, 90, validation{held_out}, target);
///   if (target.reached) … target.reached->seconds …
struct target_accuracy {
  /// When the accuracy was reached.
  struct result {
    std::int64_t steps = 0;  ///< Updates of the whole run until then.
    /// Epochs of the whole run and seconds of this fit until then, and the accuracy.
    double epochs = 0, seconds = 0, accuracy = 0;
  };

  /// Top-1 accuracy to reach. Range: 0 < accuracy <= 1, else usage_error.
  double accuracy = 0.75;
  bool stops = true;  ///< Whether the run ends there.
  /// State: the first validation of this fit that reaches the accuracy, if any.
  std::optional<result> reached{};
  std::chrono::steady_clock::time_point begun{};  ///< State: when this fit began.

  /// Called by a fit without `validation`. @throws error.
  [[noreturn, gnu::cold]] void refuse_without_validation() const {
    throw error(
        "target_accuracy: there is no validation to reach it: give fit validation{data} too");
  }
  /// Settings that must agree on all ranks.
  [[nodiscard, gnu::cold]] std::string rank_settings() const {
    return concat("target_accuracy, .accuracy ", accuracy, ", .stops ", stops);
  }

  /// Checks the options. @throws usage_error for an accuracy out of its range.
  template <class Run>
  void check_on_all_ranks(Run&, double) {
    expects(accuracy > 0 && accuracy <= 1, "target_accuracy: .accuracy is above 0 and at most 1");
  }
  /// Starts the clock and clears an earlier result.
  template <class Run>
  void begin_on_all_ranks(Run&, double) {
    begun = std::chrono::steady_clock::now();
    reached.reset();
  }
  /// Returns whether the run ends.
  template <class Run>
  bool epoch_on_all_ranks(Run& run, const epoch_record& e) {
    if (!e.validation) refuse_without_validation();
    if (e.validation->top1 < 0) detail::train::refuse_without_accuracy("target_accuracy");
    if (reached || !(e.validation->accuracy() >= accuracy)) return false;
    const auto took = std::chrono::steady_clock::now() - begun;
    const auto& at = run.fit_state();
    reached = {at.update, at.epochs, std::chrono::duration<double>(took).count(),
               e.validation->accuracy()};
    return stops;
  }
  /// Prints the result to standard error, on rank 0.
  template <class Run>
  void end_on_all_ranks(Run& run) {
    if (run.comm().rank() != 0) return;
    if (reached)
      std::fputs(concat("target_accuracy: ", decimal::fixed(reached->accuracy, 4), " (target ",
                        decimal::general(accuracy, 4), ") after ", reached->steps, " steps, ",
                        decimal::general(reached->epochs, 4), " epochs; ",
                        decimal::fixed(reached->seconds, 3), " s\n")
                     .c_str(),
                 stderr);
    else
      std::fputs(
          concat("target_accuracy: ", decimal::general(accuracy, 4), " was not reached\n").c_str(),
          stderr);
  }
};

}  // namespace cordee::inline CORDEE_ABI
