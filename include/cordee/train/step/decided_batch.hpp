// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The gradient's noise of a step, and the loader's batches where the schedule decides them.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/core/batch_schedule.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/schedule/schedule.hpp>
#include <cordee/train/step/gradient_noise.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// Adds a step of an exact optimizer to the averages of the gradient's noise, and to what the
/// schedule sees. Collective.
template <class Run, class Outcome>
[[gnu::cold]] void measure_noise(Run& run, const Outcome& own, gradient_noise& noise,
                                 observation& seen) {
  const auto count = static_cast<double>(own.train.count);
  std::array<double, 4> sums{count, 0, 0, 0};
  if (count > 0) sums = {count, own.squared_local_norm / (count * count), 1 / count, 1};
  allreduce_host(run.comm(), sums, reduce_op::sum);
  const auto [batch, squares, inverse, ranks] = sums;
  if (!own.applied || ranks < 2) return;  // one rank had all samples: its gradient is the mean
  // Backward weights a sample with ranks / batch: the mean over ranks is that over samples.
  const double unweighted = batch / run.comm().size();
  const auto estimate = noise_estimate::of(squares * unweighted * unweighted / ranks,
                                           ranks / inverse, own.squared_global_norm, batch);
  noise.add(estimate);
  seen.squared_gradient = estimate.squared_gradient;
  seen.gradient_variance = estimate.trace / batch;
}

/// Gives the loader the batches that the schedule has decided so far.
template <class Run, class F>
[[gnu::cold]] void set_decided_batch(Run& run, F& feed) {
  if constexpr (schedule::needs_gradient_noise<std::remove_cvref_t<decltype(run.schedule())>>())
    expects(run.options().measure_gradient_noise,
            "fit: the schedule decides by the gradient's noise: set "
            "trainer_options::measure_gradient_noise");
  if constexpr (schedule::DecidesBatch<std::remove_cvref_t<decltype(run.schedule())>>) {
    static_assert(
        requires { feed.set_batch_schedule(batch_schedule{}); },
        "the schedule decides the global batch (adaptive_batch): give the loader `void "
        "set_batch_schedule(const batch_schedule&)`, as cordee::loader has");
    feed.set_batch_schedule(run.schedule().batch_decided());
  }
}

/// Whether the schedule has decided another batch from `update` on, which the loader then has.
template <class Run, class F>
[[gnu::cold]] bool changes_batch(Run& run, F& feed, std::int64_t update) {
  const batch_schedule batch = run.schedule().batch_decided();
  const auto& stages = feed.stages();
  if (std::equal(batch.begin(), batch.end(), stages.begin(), stages.end())) return false;
  feed.set_batch_schedule(batch);
  feed.seek(update);  // it is one update ahead
  return true;
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
