// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Options of a run's steps, and the outcome of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <cordee/comm/transports/transport.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/limits.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/train/step/frozen_layers.hpp>
#include <cordee/train/step/loss_scale.hpp>

namespace cordee::inline CORDEE_ABI {

/// Options of a run's steps.
struct trainer_options {
  /// Largest bucket of gradients; a larger parameter tensor gets its own bucket. Unit: bytes.
  /// Range: any; 1 makes a bucket for each tensor. Default: 1 MiB on a CPU; 16 MiB on a GPU, where
  /// each bucket needs its own launches and round trips; or the transport's, if that is larger (8
  /// MiB over mpi, 25 MiB over nccl); with on_host 1 MiB, since the GPU holds two buckets.
  std::size_t bucket_bytes = 0;
  /// Whether buckets are exchanged during backward, for `eager` optimizers; not over nccl if the
  /// host sums batch statistics (batch_norm_over), since NCCL needs one order of both.
  bool overlap = true;
  /// Whether the launches of a step on a GPU are captured as graphs and replayed (graph_cache.hpp).
  /// Members of the model such as `loss` may change between steps; memory that kernels use must not
  /// be replaced except by the library.
  bool capture_graphs = false;
  /// Whether the mean gradient is tested for NaN and infinity, unless a computed norm does so
  /// anyway, and steps that fail are skipped. If false, such a gradient destroys the weights. A
  /// scaled loss is always tested.
  bool check_finite = true;
  /// Consecutive steps without a finite gradient or, if the loss is scaled, with a zero gradient,
  /// after which the run ends with an error. Unit: steps. Range: 1 or more, else usage_error.
  int max_nonfinite_steps = 20;
  /// Share of 500 consecutive steps (0 to 499, 500 to 999, …) without a finite gradient above which
  /// the run also ends; 1: never. Range: 0 to 1, else usage_error.
  double max_nonfinite_share = 0.2;
  /// Whether construction fails with an error if momentum diverges on the reducer's topology
  /// (train/checks/stability_check.hpp).
  bool check_stability = true;
  /// Consecutive ranks whose samples share batch-norm statistics (Ying et al., 2018), fewer in the
  /// last group if it does not divide the ranks; 0: all (SyncBatchNorm). Unit: ranks. Range: 0 to
  /// the ranks of the run, else usage_error. For all ranks over `native<nccl>` they are summed on
  /// the GPU in stream order; otherwise each layer needs three small exchanges by the host, or two
  /// on a GPU below fp64.
  int batch_norm_over = 1;
  /// Whether each step measures the gradient noise scale (gradient_noise.hpp), with an additional
  /// norm of this rank's gradient. `fit` reports it in step_record::noise. Range: true only with
  /// two ranks or more, an optimizer that averages gradients, and check_finite, else usage_error.
  bool measure_gradient_noise = false;
  /// Seed of the initial weights and of dropout. Range: any.
  std::uint64_t seed = 0;
  /// Loss scaling, for precisions that use it (fp16).
  detail::train::loss_scaling loss_scaling{};
  /// Frozen tensors, by name prefixes: "conv1, bn1, layer1" (frozen_layers.hpp). They keep their
  /// bits, as do their batch norms' running statistics. Range: each is the prefix of a tensor's
  /// name, with one tensor left to train, else usage_error.
  detail::train::frozen_layers freeze{};
};

namespace detail::train {

/// One step, as seen by this rank.
struct step_outcome {
  step_info info{};
  metrics train{};  // sums over this rank's samples
  /// |g|^2: of the mean for exact optimizers, else of this rank's gradient. NaN if not tested.
  double squared_global_norm = core::limits<double>::quiet_NaN();
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

/// The default of an update by the host, whose device holds two buckets.
inline constexpr std::size_t on_host_bucket_bytes = std::size_t{1} << 20;

/// The largest bucket on device D over the transport T, and what has decided it.
struct bucket_limit {
  std::size_t bytes;
  std::string_view decided_by;
};
template <class D, class T>
constexpr bucket_limit bucket_limit_of(const trainer_options& options, bool on_host = false) {
  constexpr std::size_t device = std::size_t{D::host_memory ? 1 : 16} << 20,
                        transport = comm::bucket_bytes_of<T>();
  if (options.bucket_bytes > 0) return {options.bucket_bytes, "bucket_bytes"};
  if (on_host) return {on_host_bucket_bytes, "on_host's default"};
  return transport > device ? bucket_limit{transport, "the transport's default"}
                            : bucket_limit{device, "the device's default"};
}

/// Whether backward of a step's first micro-batch overwrites the gradients, so that nothing clears
/// them. On the CPU that would change the sign of zeros, but models may ask for it.
template <class M>
bool overwrites(const auto& first) {
  return (!M::device::host_memory || requires { requires M::overwrites_gradients; }) &&
         first.count > 0;
}

/// The host's work during a step, by default.
struct no_work {
  void operator()() const {}
};

}  // namespace detail::train

}  // namespace cordee::inline CORDEE_ABI
