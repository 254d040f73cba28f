// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of updates and epochs where the global batch changes: a batch_plan per stage, each
// from where the one before ended.
//
//   stage i begins with the first update k_i that begins at its epoch E_i or later
//   carry        at sample g_i = g_(i-1) + (k_i - k_(i-1)) B_(i-1) of all epochs
//   drop, pad    at epoch E_i, which must be a whole number, as whole epochs are cut
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <cordee/core/batch_schedule.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/limits.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/data/loader_options.hpp>

namespace cordee::inline CORDEE_ABI::detail::data {

class staged_plan {
 public:
  struct stage {
    batch_plan plan;
    int factor = 1;
    std::int64_t first_update = 0, first_sample = 0;  // of all epochs
  };

  staged_plan() = default;
  /// Throws usage_error or error for batches that make no update.
  [[gnu::cold, gnu::noinline]] staged_plan(std::int64_t samples, const loader_options& o,
                                           int ranks) {
    if (samples == 0) throw error("loader: the data set is empty");
    o.batch_schedule.check();
    const std::int64_t first = checked_global_batch(o, ranks);
    add(samples, first, 1, o.last_batch, 0);
    for (const batch_schedule::stage& s : o.batch_schedule) {
      expects(first <= largest_batch / s.factor,
              "loader: a stage of .batch_schedule has more than 2^31 - 1 samples in an update");
      expects(o.last_batch == last_batch::carry || s.epoch == core::floor(s.epoch),
              "loader: with last_batch::drop or pad a stage of .batch_schedule begins at a whole "
              "epoch; use last_batch::carry, or another epoch");
      add(samples, first * s.factor, s.factor, o.last_batch, s.epoch);
    }
  }

  [[nodiscard]] const batch_plan& first() const { return stages_[0].plan; }
  [[nodiscard, gnu::cold, gnu::noinline]] int largest_factor() const {
    int most = 1;
    for (const stage& s : stages_) most = std::max(most, s.factor);
    return most;
  }
  /// The stage of an update.
  [[nodiscard, gnu::noinline]] const stage& at(std::int64_t step) const {
    std::size_t i = stages_.size() - 1;
    while (stages_[i].first_update > step) --i;
    return stages_[i];
  }
  [[nodiscard, gnu::cold, gnu::noinline]] std::int64_t most_steps() const {
    std::int64_t most = first().most_steps();
    for (const stage& s : stages_) most = std::min(most, s.plan.most_steps());
    return most;
  }
  /// `step`. Throws usage_error for one that cannot be counted.
  [[nodiscard, gnu::cold, gnu::noinline]] std::int64_t checked_step(std::int64_t step) const {
    expects(step >= 0, "loader: steps are counted from 0");
    expects(step <= most_steps(), "loader: a step beyond the largest that can be counted");
    return step;
  }
  /// Updates of so many epochs, rounded up.
  [[nodiscard, gnu::cold, gnu::noinline]] std::int64_t steps(double epochs) const {
    std::size_t i = stages_.size() - 1;
    while (i > 0 && epochs <= epoch_at(stages_[i])) --i;
    const std::int64_t rest =
        stages_[i].plan.steps(i == 0 ? epochs : epochs - epoch_at(stages_[i]));
    return stages_[i].first_update + rest;
  }
  /// Epochs of data seen before an update.
  [[nodiscard, gnu::cold, gnu::noinline]] double epoch(std::int64_t step) const {
    return epoch(at(step), step);
  }
  /// Sample j of an update.
  [[nodiscard, gnu::noinline]] batch_plan::position sample(std::int64_t step,
                                                           std::int64_t j) const {
    const stage& s = at(step);
    const std::int64_t k = step - s.first_update, samples = s.plan.samples;
    if (s.plan.last_batch == last_batch::carry) {
      const std::int64_t g = s.first_sample + k * s.plan.global_batch + j;
      return {g / samples, g % samples};
    }
    batch_plan::position p = s.plan.sample(k, j);
    p.epoch += s.first_sample / samples;
    return p;
  }
  /// "512 from update 1500 (epoch 30) on, in more micro-batches; ", empty for a single stage.
  [[nodiscard, gnu::cold]] std::string describe(bool grows_micro_batch) const {
    std::string text;
    for (std::size_t i = 1; i < stages_.size(); ++i)
      text += concat("a global batch of ", stages_[i].plan.global_batch, " from update ",
                     stages_[i].first_update, " (epoch ", epoch_at(stages_[i]), ") on, ");
    return text.empty()
               ? text
               : concat(text, grows_micro_batch ? "in larger" : "in more", " micro-batches; ");
  }

 private:
  [[nodiscard]] static double epoch_at(const stage& s) {
    return static_cast<double>(s.first_sample) / static_cast<double>(s.plan.samples);
  }
  [[nodiscard]] static double epoch(const stage& s, std::int64_t step) {
    const std::int64_t k = step - s.first_update;
    if (s.plan.last_batch == last_batch::carry)
      return static_cast<double>(s.first_sample + k * s.plan.global_batch) /
             static_cast<double>(s.plan.samples);
    return epoch_at(s) + s.plan.epoch(k);
  }

  [[gnu::cold, gnu::noinline]] void add(std::int64_t samples, std::int64_t batch, int factor,
                                        cordee::last_batch end, double epoch) {
    stage next{{samples, batch, end}, factor};
    if (end == last_batch::drop && batch > samples)
      throw error(
          concat("loader: a global batch of ", batch, " does not fit the ", samples,
                 " samples of the data set, so last_batch::drop would leave out all of them: "
                 "use last_batch::carry or last_batch::pad, or a smaller batch"));
    if (!stages_.empty()) {
      const stage& last = stages_.back();
      // The first update whose epoch, as a double, is not before the stage's.
      next.first_update =
          last.first_update + last.plan.steps(std::max(epoch - epoch_at(last), 0.0));
      while (staged_plan::epoch(last, next.first_update) < epoch) ++next.first_update;
      while (next.first_update > last.first_update &&
             staged_plan::epoch(last, next.first_update - 1) >= epoch)
        --next.first_update;
      next.first_sample =
          end == last_batch::carry
              ? last.first_sample + (next.first_update - last.first_update) * last.plan.global_batch
              : static_cast<std::int64_t>(epoch) * samples;
    }
    stages_.push_back(next);
  }

  core::pod_vector<stage> stages_;
};

/// The plan of a loader that holds so many updates at a time. Throws as its parts do.
[[gnu::cold, gnu::noinline]] inline staged_plan plan_that_fits(std::size_t samples,
                                                               const extent& image,
                                                               const loader_options& o, int ranks,
                                                               int updates) {
  expects((o.global_batch > 0) != (o.micro_batch > 0) && o.global_batch >= 0 && o.micro_batch >= 0,
          "loader: set either .global_batch or .micro_batch, to a positive number");
  expects(o.accumulate > 0, "loader: .accumulate, the number of micro-batches, must be at least 1");
  expects(samples <= core::limits<std::uint32_t>::max(),
          "loader: the data set has more than 2^32 - 1 samples");
  staged_plan plan(static_cast<std::int64_t>(samples), o, ranks);
  const std::int64_t factor = plan.largest_factor();
  expect_room(plan.first().global_batch * factor / ranks,
              o.accumulate * (o.grow_micro_batch ? 1 : factor), updates, image.size());
  return plan;
}

}  // namespace cordee::inline CORDEE_ABI::detail::data
