// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How a network's batch norms take statistics: members of the network.
#pragma once

#include <span>
#include <string_view>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/limits.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/ops/batch_norm_problem.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

/// Throws usage_error for the layer whose scale is the tensor `scale`.
[[noreturn, gnu::cold]] inline void refuse_single_value(const ops::batch_norm_problem& at,
                                                        std::string_view scale) {
  throw usage_error(concat(
      "batch norm \"", scale.substr(0, scale.rfind('.')),
      "\" takes the variance of 1 value for each of ", at.in.channels,
      " channels (1 sample of 1 pixel",
      at.ghost_batch > 0 ? concat(" is left in a ghost batch of ", at.ghost_batch) : "",
      "), which is none: train on two samples or more in each micro-batch of a rank, the last one "
      "of an epoch among them, on larger images, with batch_norm_over = 0, or freeze the layer"));
}

/// Does that if a pass over so many samples takes the variance of a single value.
[[gnu::cold, gnu::noinline]] inline void expect_several_samples(const ops::batch_norm_problem& at,
                                                                int samples,
                                                                std::string_view scale) {
  if (at.has_single_value(samples)) refuse_single_value(at, scale);
}

struct batch_norm_settings {
  /// State: sums statistics over ranks, if set; the trainer sets it, see
  /// trainer_options::batch_norm_over.
  ops::statistics_allreduce batch_norm_allreduce;
  /// Epoch from which training normalizes by running statistics, which then stay constant. Unit:
  /// epochs. Range: any but NaN, else usage_error.
  double freeze_batch_norm_at = core::limits<double>::infinity();
  /// Whether running statistics are moving averages. If false (Akiba et al., 2017), they are the
  /// mean and biased variance of the last batch, by which it was normalized, and evaluation uses
  /// their means over ranks. Range: true on GPUs, else usage_error.
  bool batch_norm_moving_average = true;

  bool has_ghost_batches = false;              ///< State: whether a layer has ghost batches.
  core::pod_vector<segment> one_pixel_scales;  ///< State: scales of layers with one pixel.

  /// Throws usage_error if a layer has ghost batches.
  [[gnu::cold]] void share_statistics(const ops::statistics_allreduce& allreduce) {
    expects(!has_ghost_batches,
            "trainer: batch_norm_over takes statistics over whole batches: give the network "
            "ghost_batch = 0");
    batch_norm_allreduce = allreduce;
  }
  /// Throws usage_error for options that a device does not support.
  [[gnu::cold]] void check_batch_norms(bool host_memory) const {
    expects(freeze_batch_norm_at == freeze_batch_norm_at,
            "network: .freeze_batch_norm_at is NaN: give an epoch, or infinity for never");
    expects(batch_norm_moving_average || host_memory,
            "network: .batch_norm_moving_average = false is not written for GPUs yet");
  }
  /// Throws usage_error if a batch norm whose scale is among `trained` would take the variance of a
  /// single value over ranks, for one of this rank's micro-batches of an update, which a GPU's pass
  /// cannot detect. Concerns only layers with one pixel; for these it is collective if ranks share
  /// statistics.
  template <class D>
  [[gnu::cold]] void expect_several_values(std::span<const batch<D>> micro, double epoch,
                                           std::span<const segment> trained) const {
    const segment* const scale = epoch < freeze_batch_norm_at ? one_pixel_scale(trained) : nullptr;
    if (!batch_norm_allreduce || scale == nullptr) return;
    core::pod_vector<double> samples;
    for (const batch<D>& b : micro) samples.push_back(b.count);
    if (batch_norm_allreduce.enqueue != nullptr && micro.size() == 1)  // known without a message
      samples[0] = static_cast<double>(micro.front().global_samples);
    else
      batch_norm_allreduce(samples.span());
    for (const double n : samples)
      if (n == 1) refuse_single_value({{static_cast<int>(scale->size), 1, 1}}, scale->name);
  }

 private:
  [[nodiscard, gnu::cold]] const segment* one_pixel_scale(std::span<const segment> trained) const {
    for (const segment& scale : one_pixel_scales)
      for (const segment& s : trained)
        if (s.offset == scale.offset) return &scale;
    return nullptr;
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::nn
