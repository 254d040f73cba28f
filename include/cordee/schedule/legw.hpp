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
// *updates* in the warm-up does not change. The warm-up replaces the first epochs of the schedule,
// whose other epochs do not move: this is warmup{W, sqrt_scaled{s, …}} with the two factors tied
// together. `warmup_epochs` and the learning rates of `inner` are those of the reference batch,
// which has no default.
#pragma once

#include <cmath>
#include <cstdint>

#include <cordee/core/error.hpp>
#include <cordee/schedule/scaled.hpp>
#include <cordee/schedule/schedule.hpp>
#include <cordee/schedule/warmup.hpp>

namespace cordee::inline CORDEE_ABI {

template <Schedule S>
struct legw {
  double warmup_epochs = 0;
  S inner{};
  std::int64_t reference_batch = detail::schedule::missing_batch<S>();
  std::int64_t global_batch = detail::schedule::missing_batch<S>();

  /// sqrt(k)
  [[nodiscard]] double factor() const { return std::sqrt(batch_ratio()); }
  /// W, the length of this run's warm-up. Throws `usage_error` unless the schedule is longer: the
  /// warm-up would lead to its last learning rate, which is often zero.
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

  double operator()(double epoch) const {
    const double length = epochs();
    return factor() * (epoch < length ? detail::schedule::ramp(epoch, length, 0, inner(length))
                                      : inner(epoch));
  }
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
