// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// LEGW, linear-epoch gradual warm-up: rates by the root of the batch, warm-up epochs by the batch
// itself (You et al. 2019). k = global batch / reference batch.
//
//   W = k warmup_epochs
//   rate(e) = sqrt(k) s(W) e / W   for e < W, then sqrt(k) s(e)
//
// Nothing else is tuned when the batch grows. An epoch has k times fewer updates, so the number of
// *updates* of the warm-up stays what it was. The climb overwrites the beginning of the schedule,
// whose own epochs stay where they are: this is warmup{k W, sqrt_scaled{s, …}} with the two factors
// tied together. `warmup_epochs` and the rates of `inner` are those of the reference batch, which
// has no default.
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
  std::int64_t reference_batch = detail::unsaid_batch<S>();
  std::int64_t global_batch = detail::unsaid_batch<S>();

  /// The factor of the rates.
  [[nodiscard]] double factor() const { return std::sqrt(growth()); }
  /// W: how long the warm-up is with this run's batch. A schedule that ends before that is refused:
  /// the climb would lead to its last rate, which is often zero.
  [[nodiscard]] double epochs() const {
    detail::expects_length(warmup_epochs);
    const double grown = warmup_epochs * growth();
    if (!(grown < end_of(inner)))
      throw misuse(text("legw: ", grown, " epochs of warm-up do not fit the ", end_of(inner),
                        " epochs of the schedule; take a smaller batch, a shorter warm-up at the "
                        "reference batch, or more epochs"));
    return grown;
  }

  double operator()(double epoch) const {
    const double climb = epochs();
    return factor() * (epoch < climb ? detail::climb(epoch, climb, 0, inner(climb)) : inner(epoch));
  }
  [[nodiscard]] double ends() const { return end_of(inner); }
  void observe(double epoch, double mean_loss)
    requires AdaptiveSchedule<S>
  {
    inner.observe(epoch, mean_loss);
  }
  [[nodiscard]] std::string describe() const {
    return text("LEGW, ", global_batch, "/", reference_batch, ": warm-up over the first ", epochs(),
                " epochs of ", factor(), " times: ", in_words(inner));
  }

 private:
  [[nodiscard]] double growth() const { return detail::batch_ratio(reference_batch, global_batch); }
};
template <class S>
legw(double, S, std::int64_t = 0, std::int64_t = 0) -> legw<S>;

}  // namespace cordee::inline CORDEE_ABI
