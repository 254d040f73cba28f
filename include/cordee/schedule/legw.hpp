// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// LEGW, linear-epoch gradual warm-up (You et al. 2019): learning rates grow with the square root of
// the batch, warm-up epochs with the batch. k = global batch / reference batch.
//
//   W     = k warmup_epochs
//   lr(e) = sqrt(k) s(W) e / W   for e < W,   then sqrt(k) s(e)
//
// Nothing else is tuned when the batch grows. An epoch has k times fewer updates, so the number of
// *updates* in the warm-up does not change. The warm-up replaces the first epochs of the schedule;
// its other epochs do not move: this is warmup{W, sqrt_scaled{s, …}} with the two factors tied
// together.
#pragma once

#include <cstdint>

#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/schedule/scaled.hpp>
#include <cordee/schedule/schedule.hpp>
#include <cordee/schedule/warmup.hpp>

namespace cordee::inline CORDEE_ABI {

/// LEGW: a schedule scaled with the square root of the batch, after a warm-up that grows with it.
template <Schedule S>
struct legw {
  /// Length of the warm-up at the reference batch. Unit: epochs. Range: finite, 0 or more, and k
  /// times it is shorter than `inner`, else usage_error.
  double warmup_epochs = 0;
  S inner{};  ///< The schedule, with the learning rates of the reference batch.
  /// Batch for which the warm-up and learning rates were tuned. Unit: samples. Range: above 0, else
  /// usage_error. Leaving it out is a compile error.
  std::int64_t reference_batch = detail::schedule::missing_batch<S>();
  /// This run's batch, over all ranks. Unit: samples. Range: above 0, else usage_error. Leaving it
  /// out is a compile error.
  std::int64_t global_batch = detail::schedule::missing_batch<S>();

  /// Returns the square root of k. @throws usage_error for a batch that is not positive.
  [[nodiscard]] double factor() const { return detail::core::sqrt(batch_ratio()); }
  /// Returns W, the length of this run's warm-up. @throws usage_error unless the schedule is
  /// longer: the warm-up would end at its last learning rate, which is often zero.
  [[nodiscard]] double epochs() const {
    detail::schedule::expects_length(warmup_epochs);
    const double length = warmup_epochs * batch_ratio();
    if (!(length < detail::schedule::end_epoch_of(inner)))
      throw usage_error(
          concat("legw: ", length, " epochs of warm-up do not fit the ",
                 detail::schedule::end_epoch_of(inner),
                 " epochs of the schedule; take a smaller batch, a shorter warm-up at the "
                 "reference batch, or more epochs"));
    return length;
  }

  /// The ramp from 0 before epochs(), then the scaled schedule at the same epoch.
  double operator()(double epoch) const {
    const double length = epochs();
    return factor() * (epoch < length ? detail::schedule::ramp(epoch, length, 0, inner(length))
                                      : inner(epoch));
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("LEGW, ", global_batch, "/", reference_batch, ": warm-up over the first ",
                  epochs(), " epochs of ", factor(), " times: ", cordee::describe(inner));
  }

 private:
  [[nodiscard]] double batch_ratio() const {
    return detail::schedule::batch_ratio(reference_batch, global_batch);
  }
};
template <class S>
legw(double, S, std::int64_t = 0, std::int64_t = 0) -> legw<S>;

}  // namespace cordee::inline CORDEE_ABI
