// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// From the rate of a small batch to that of a large one: k = global batch / reference batch.
//
//   linear_scaled  rate(e) = k s(e)        (Goyal et al. 2017)
//   sqrt_scaled    rate(e) = sqrt(k) s(e)  (You et al. 2019; with warm-up epochs times k it is
//   LEGW)
//
// The batch for which the inner rates were found has no default: which batch a rate refers to is
// what users of other systems cannot tell.
#pragma once

#include <cmath>
#include <cstdint>

#include <cordee/core/error.hpp>
#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {
/// What stands for a batch that was left out: only then is it asked for.
template <class S>
constexpr std::int64_t unsaid_batch() {
  static_assert(sizeof(S) == 0,
                "a scaled schedule needs both batches: the reference batch, for which its rates "
                "were found, and the global batch of this run; write linear_scaled{schedule, "
                "reference, global}, sqrt_scaled{...} or legw{warmup_epochs, ...} alike");
  return 0;
}

inline double batch_ratio(std::int64_t reference, std::int64_t global) {
  expects(reference > 0, "scaled schedule: name the reference batch, for which the rate was found");
  expects(global > 0, "scaled schedule: name the global batch of this run");
  return static_cast<double>(global) / static_cast<double>(reference);
}
}  // namespace detail

template <Schedule S>
struct linear_scaled {
  S inner{};
  std::int64_t reference_batch = detail::unsaid_batch<S>();
  std::int64_t global_batch = detail::unsaid_batch<S>();

  [[nodiscard]] double factor() const { return detail::batch_ratio(reference_batch, global_batch); }
  double operator()(double epoch) const { return factor() * inner(epoch); }
  [[nodiscard]] double ends() const { return end_of(inner); }
  void observe(double epoch, double mean_loss)
    requires AdaptiveSchedule<S>
  {
    inner.observe(epoch, mean_loss);
  }
  [[nodiscard]] std::string describe() const {
    return text(factor(), " = ", global_batch, "/", reference_batch, " times: ", in_words(inner));
  }
};
template <class S>
linear_scaled(S, std::int64_t = 0, std::int64_t = 0) -> linear_scaled<S>;

template <Schedule S>
struct sqrt_scaled {
  S inner{};
  std::int64_t reference_batch = detail::unsaid_batch<S>();
  std::int64_t global_batch = detail::unsaid_batch<S>();

  [[nodiscard]] double factor() const {
    return std::sqrt(detail::batch_ratio(reference_batch, global_batch));
  }
  double operator()(double epoch) const { return factor() * inner(epoch); }
  [[nodiscard]] double ends() const { return end_of(inner); }
  void observe(double epoch, double mean_loss)
    requires AdaptiveSchedule<S>
  {
    inner.observe(epoch, mean_loss);
  }
  [[nodiscard]] std::string describe() const {
    return text(factor(), " = sqrt(", global_batch, "/", reference_batch,
                ") times: ", in_words(inner));
  }
};
template <class S>
sqrt_scaled(S, std::int64_t = 0, std::int64_t = 0) -> sqrt_scaled<S>;

}  // namespace cordee::inline CORDEE_ABI
