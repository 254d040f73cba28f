// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How a network's batch norms take statistics: members of the network.
#pragma once

#include <limits>
#include <string_view>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/ops/batch_norm_problem.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

struct batch_norm_settings {
  // Of statistics over ranks, if set; by the trainer, see trainer_options::batch_norm_over.
  ops::statistics_allreduce batch_norm_allreduce;
  /// The epoch from which running statistics are frozen: training normalizes by them.
  double freeze_batch_norm_at = std::numeric_limits<double>::infinity();
  /// False: no moving averages (Akiba et al., 2017). The running statistics are the mean and the
  /// biased variance of the last batch, by which it was normalized, and evaluation takes their
  /// means over ranks. Not written for GPUs yet.
  bool batch_norm_moving_average = true;

  bool has_ghost_batches = false;  // of the layers

  /// Throws usage_error if the statistics are those of ghost batches.
  [[gnu::cold]] void share_statistics(const ops::statistics_allreduce& allreduce) {
    expects(!has_ghost_batches,
            "trainer: batch_norm_over takes statistics over whole batches: give the network "
            "ghost_batch = 0");
    batch_norm_allreduce = allreduce;
  }
  /// Throws usage_error for what a device does not do.
  [[gnu::cold]] void check_batch_norms(bool host_memory) const {
    expects(freeze_batch_norm_at == freeze_batch_norm_at,
            "network: .freeze_batch_norm_at is NaN: give an epoch, or infinity for never");
    expects(batch_norm_moving_average || host_memory,
            "network: .batch_norm_moving_average = false is not written for GPUs yet");
  }
};

/// Throws usage_error for the layer whose scale is the tensor `scale`.
[[noreturn, gnu::cold]] inline void refuse_single_value(const ops::batch_norm_problem& at,
                                                        std::string_view scale) {
  throw usage_error(concat(
      "batch norm \"", scale.substr(0, scale.rfind('.')),
      "\" takes the variance of 1 value for each of ", at.in.channels,
      " channels (1 sample of 1 pixel",
      at.ghost_batch > 0 ? concat(" is left in a ghost batch of ", at.ghost_batch) : "",
      "), which is none: train on two samples or more in each micro-batch of a rank, the last one "
      "of "
      "an epoch among them, on larger images, with batch_norm_over = 0, or freeze the layer"));
}

}  // namespace cordee::inline CORDEE_ABI::detail::nn
