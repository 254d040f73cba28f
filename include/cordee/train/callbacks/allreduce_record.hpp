// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One update's record over all ranks: sums of metrics, means of measurements.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <type_traits>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/train/callbacks/record.hpp>
#include <cordee/train/measure/evaluate.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// For reductions, which are of doubles.
inline void to_doubles(const metrics& s, double* out) {
  out[0] = s.loss;
  out[1] = static_cast<double>(s.top1);
  out[2] = static_cast<double>(s.top5);
  out[3] = static_cast<double>(s.count);
}
inline metrics from_doubles(const double* in) {
  return {in[0], core::llround(in[1]), core::llround(in[2]), core::llround(in[3])};
}

/// One step over all ranks: sums of metrics, the norm of the gradient, skipped steps, measurements.
template <bool ReadsRatios, class Run, class Outcome>
[[gnu::cold, gnu::noinline]] step_record allreduce_record(Run& run, const Outcome& own,
                                                          std::int64_t skipped, double seconds,
                                                          double input_wait) {
  constexpr bool exact = Run::gradient_is_exact;
  std::optional<quantiles> ratios;
  if constexpr (ReadsRatios)
    if (own.applied) ratios = trust_ratios(run);
  step_record r{own.info, own.train, core::sqrt(own.squared_global_norm), !exact};
  if constexpr (exact && requires { run.optimizer().clip_factor(r.grad_norm); })
    if (own.applied) r.clip_factor = run.optimizer().clip_factor(r.grad_norm);
  r.skipped = skipped + ((exact ? own.applied : own.finite()) ? 0 : 1);
  r.seconds = seconds;
  r.input_wait = input_wait;
  r.exposed_exchange = own.exposed_exchange;
  if (Run::precision::scales_loss) r.loss_scale = own.loss_scale;
  r.trust_ratios = ratios;
  if constexpr (!comm::single_rank<std::remove_cvref_t<decltype(run.comm())>>) {
    const quantiles q = ratios.value_or(quantiles{});
    std::array<double, 15> sums{0,
                                0,
                                0,
                                0,
                                own.squared_global_norm,
                                own.finite() ? 0.0 : 1.0,  // first the metrics
                                input_wait,
                                own.exposed_exchange.value_or(0),
                                own.loss_scale,
                                ratios ? 1.0 : 0.0,
                                q.min,
                                q.first_quartile,
                                q.median,
                                q.third_quartile,
                                q.max};
    to_doubles(own.train, sums.data());
    allreduce_host(run.comm(), sums, reduce_op::sum);
    const int ranks = run.comm().size();
    r.train = from_doubles(sums.data());
    r.input_wait = sums[6] / ranks;
    if (own.exposed_exchange) r.exposed_exchange = sums[7] / ranks;
    if constexpr (!exact) {
      r.grad_norm = core::sqrt(sums[4] / ranks);
      r.skipped = skipped + core::llround(sums[5]);
      if (Run::precision::scales_loss) r.loss_scale = sums[8] / ranks;
      if (const double n = sums[9]; n > 0)
        r.trust_ratios = {sums[10] / n, sums[11] / n, sums[12] / n, sums[13] / n, sums[14] / n};
    }
  }
  return r;
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
