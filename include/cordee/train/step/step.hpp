// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Options of a run's steps, and the outcome of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include <cordee/comm/transports/transport.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/train/step/frozen_layers.hpp>
#include <cordee/train/step/loss_scale.hpp>

namespace cordee::inline CORDEE_ABI {

struct trainer_options {
  /// Largest bucket, in bytes of gradients; a larger parameter tensor is a bucket of its own. 0: 1
  /// MiB on a CPU; 16 MiB on a GPU, where each bucket has launches and round trips of its own; or
  /// what the transport states, if that is more (8 MiB over mpi, 25 MiB over nccl).
  std::size_t bucket_bytes = 0;
  /// Exchange buckets during backward, with optimizers that are `eager`; not over nccl where the
  /// host sums batch statistics (batch_norm_over), since NCCL wants one order of both.
  bool overlap = true;
  /// On a GPU, capture the launches of a step as graphs and replay them (graph_cache.hpp). Members
  /// of the model such as `loss` may change between steps; memory that kernels use must
  /// not be replaced by means other than the library's.
  bool capture_graphs = false;
  /// Test the mean gradient for NaN and infinity where no computed norm does it anyway, and skip
  /// steps where it fails. Without, such a gradient destroys the weights. A scaled loss is always
  /// tested.
  bool check_finite = true;
  /// The run ends with an error after so many steps in a row without a finite gradient or, where
  /// the loss is scaled, whose gradient is zero.
  int max_nonfinite_steps = 20;
  /// It also ends when more than this share of 500 consecutive steps (0 to 499, 500 to 999, …) had
  /// no finite gradient; 1: never.
  double max_nonfinite_share = 0.2;
  /// Throw at construction if momentum diverges on the reducer's topology
  /// (train/checks/stability_check.hpp).
  bool check_stability = true;
  /// Batch norm's statistics are over the samples of so many consecutive ranks (Ying et al., 2018),
  /// of fewer in the last group if it does not divide the ranks; 0: of all (SyncBatchNorm). Those
  /// of all over `native<nccl>` are summed on the GPU in stream order; otherwise each layer has
  /// three small exchanges of the host's, on a GPU below fp64 two.
  int batch_norm_over = 1;
  /// Measure the gradient noise scale in each step (gradient_noise.hpp), by one more norm of this
  /// rank's gradient. `fit` reports it in step_record::noise.
  bool measure_gradient_noise = false;
  /// Of the initial weights and of dropout.
  std::uint64_t seed = 0;
  /// For precisions that scale their loss (fp16).
  detail::train::loss_scaling loss_scaling{};
  /// Tensors whose names begin with one of these keep their bits, as their batch norms' running
  /// statistics do (frozen_layers.hpp): "conv1, bn1, layer1".
  detail::train::frozen_layers freeze{};
};

namespace detail::train {

/// One step, as seen by this rank.
struct step_outcome {
  step_info info{};
  metrics train{};  // sums over this rank's samples
  /// |g|^2: of the mean for exact optimizers, else of this rank's gradient. NaN if not tested.
  double squared_global_norm = std::numeric_limits<double>::quiet_NaN();
  double squared_local_norm = 0;             // of this rank's gradient, if measure_gradient_noise
  bool applied = true;                       // false: this rank skipped the step
  bool overflows_statistics = false;         // this rank's running statistics would be infinite
  int zeroed_buckets = 0;                    // replaced by a zero gradient (mixing optimizers)
  double loss_scale = 1;                     // with which this step's gradients were computed
  std::optional<double> exposed_exchange{};  // seconds, as in step_record

  /// Whether every element of the gradient was finite.
  [[nodiscard]] bool finite() const { return applied && zeroed_buckets == 0; }
  /// Whether this rank had samples and every element of the gradient was zero, if that was tested.
  [[nodiscard]] bool has_zero_gradient() const {
    return finite() && train.count > 0 && squared_global_norm == 0;
  }
};

/// The largest bucket on device D over the transport T, and what has decided it.
struct bucket_limit {
  std::size_t bytes;
  std::string_view decided_by;
};
template <class D, class T>
constexpr bucket_limit bucket_limit_of(const trainer_options& options) {
  constexpr std::size_t device = std::size_t{D::host_memory ? 1 : 16} << 20,
                        transport = comm::bucket_bytes_of<T>();
  if (options.bucket_bytes > 0) return {options.bucket_bytes, "bucket_bytes"};
  return transport > device ? bucket_limit{transport, "the transport's default"}
                            : bucket_limit{device, "the device's default"};
}

/// Whether backward of a step's first micro-batch overwrites the gradients, so that nothing clears
/// them. On the CPU that would change the sign of zeros.
template <class D>
bool overwrites(const batch<D>& first) {
  return !D::host_memory && first.count > 0;
}

/// The host's work during a step, by default.
struct no_work {
  void operator()() const {}
};

}  // namespace detail::train

}  // namespace cordee::inline CORDEE_ABI
