// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The best epoch of a run by a measure of its validation.
#pragma once

#include <limits>
#include <optional>
#include <string_view>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/train/callbacks/record.hpp>

namespace cordee::inline CORDEE_ABI {

/// The measure of `validation` that early_stopping and best compare.
enum class validation_measure {
  accuracy,  ///< Top-1, the larger the better.
  loss       ///< Mean loss, the smaller the better.
};

namespace detail::train {

constexpr std::string_view name_of(validation_measure m) {
  return m == validation_measure::accuracy ? "accuracy" : "loss";
}

[[noreturn, gnu::cold]] void refuse_without_validation(validation_measure m, const auto& callback) {
  throw error(concat(callback, " compares the ", name_of(m),
                     " of a validation, and there is none: give fit validation{data} too"));
}

[[noreturn, gnu::cold]] inline void refuse_without_accuracy(std::string_view callback) {
  throw error(concat(callback,
                     ": this model does not count right predictions (metrics::top1 is "
                     "below 0): compare the loss, or have the model count them"));
}

/// The measure in a record of `fit`. Throws error if nothing was validated, or if the model does
/// not measure it.
double measure(validation_measure m, const epoch_record& e, const auto& callback) {
  if (!e.validation) refuse_without_validation(m, callback);
  if (m == validation_measure::accuracy && e.validation->top1 < 0)
    refuse_without_accuracy(callback);
  return m == validation_measure::accuracy ? e.validation->accuracy() : e.validation->mean_loss();
}

struct best_epoch {
  std::optional<double> value{};  // none before the first epoch
  int epoch = 0;                  // in which it was reached, from 1
  int since = 0;                  // epochs without an improvement

  /// Takes the value of an epoch, `at` as in step_info. Returns whether it improves on the best one
  /// by more than `minimum_delta`; NaN does not.
  bool add(validation_measure m, double next, double at, double minimum_delta = 0) {
    const double gain = m == validation_measure::accuracy
                            ? next - value.value_or(-std::numeric_limits<double>::infinity())
                            : value.value_or(std::numeric_limits<double>::infinity()) - next;
    if (!(gain > minimum_delta)) {
      ++since;
      return false;
    }
    value = next, epoch = static_cast<int>(at) + 1, since = 0;
    return true;
  }
};

}  // namespace detail::train

}  // namespace cordee::inline CORDEE_ABI
