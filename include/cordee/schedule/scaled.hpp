// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A schedule times a factor, and the learning rate of a large batch from that of a small one.
//
//   scaled          lr(e) = factor s(e)
//   linear_scaled   lr(e) = k s(e)          Goyal et al. 2017
//   sqrt_scaled     lr(e) = sqrt(k) s(e)    Krizhevsky 2014; with warm-up epochs times k it is LEGW
//
//   k = global batch / reference batch
//
// The reference batch, for which the learning rates of s were tuned, has no default, since a
// default would leave unclear which batch they refer to.
#pragma once

#include <cstdint>

#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::schedule {
/// Default of a batch size that was left out; instantiated, and so an error, only then.
template <class S>
constexpr std::int64_t missing_batch() {
  static_assert(
      sizeof(S) == 0,
      "a scaled schedule needs both batch sizes: the reference batch, for which its learning "
      "rates were tuned, and the global batch of this run; write linear_scaled{schedule, "
      "reference, global}, sqrt_scaled{...} or legw{warmup_epochs, ...}");
  return 0;
}

inline double batch_ratio(std::int64_t reference, std::int64_t global) {
  expects(reference > 0, "scaled schedule: the reference batch must be positive");
  expects(global > 0, "scaled schedule: the global batch must be positive");
  return static_cast<double>(global) / static_cast<double>(reference);
}
}  // namespace detail::schedule

/// A schedule times a factor.
template <Schedule S>
struct scaled {
  S inner{};          ///< The schedule that is multiplied.
  double factor = 1;  ///< Factor of every learning rate. Range: finite, above 0, else usage_error.

  /// `factor` times the inner learning rate.
  double operator()(double epoch) const {
    detail::schedule::expect_finite("scaled", {{".factor", factor}});
    expects(factor > 0, "scaled: .factor must be positive");
    return factor * inner(epoch);
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat(factor, " times: ", cordee::describe(inner));
  }
};
template <class S>
scaled(S, double) -> scaled<S>;

/// A schedule scaled linearly with the batch.
template <Schedule S>
struct linear_scaled {
  S inner{};  ///< The schedule that is multiplied.
  /// Batch for which the learning rates of `inner` were tuned. Unit: samples. Range: above 0, else
  /// usage_error. Leaving it out is a compile error.
  std::int64_t reference_batch = detail::schedule::missing_batch<S>();
  /// This run's batch, over all ranks. Unit: samples. Range: above 0, else usage_error. Leaving it
  /// out is a compile error.
  std::int64_t global_batch = detail::schedule::missing_batch<S>();

  /// Returns k. @throws usage_error for a batch that is not positive.
  [[nodiscard]] double factor() const {
    return detail::schedule::batch_ratio(reference_batch, global_batch);
  }
  /// k times the inner learning rate.
  double operator()(double epoch) const { return factor() * inner(epoch); }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat(factor(), " = ", global_batch, "/", reference_batch,
                  " times: ", cordee::describe(inner));
  }
};
template <class S>
linear_scaled(S, std::int64_t = 0, std::int64_t = 0) -> linear_scaled<S>;

/// A schedule scaled with the square root of the batch.
template <Schedule S>
struct sqrt_scaled {
  S inner{};  ///< The schedule that is multiplied.
  /// Batch for which the learning rates of `inner` were tuned. Unit: samples. Range: above 0, else
  /// usage_error. Leaving it out is a compile error.
  std::int64_t reference_batch = detail::schedule::missing_batch<S>();
  /// This run's batch, over all ranks. Unit: samples. Range: above 0, else usage_error. Leaving it
  /// out is a compile error.
  std::int64_t global_batch = detail::schedule::missing_batch<S>();

  /// Returns the square root of k. @throws usage_error for a batch that is not positive.
  [[nodiscard]] double factor() const {
    return detail::core::sqrt(detail::schedule::batch_ratio(reference_batch, global_batch));
  }
  /// The square root of k times the inner learning rate.
  double operator()(double epoch) const { return factor() * inner(epoch); }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat(factor(), " = sqrt(", global_batch, "/", reference_batch,
                  ") times: ", cordee::describe(inner));
  }
};
template <class S>
sqrt_scaled(S, std::int64_t = 0, std::int64_t = 0) -> sqrt_scaled<S>;

}  // namespace cordee::inline CORDEE_ABI
