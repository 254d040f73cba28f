// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a step returns to the host: the metrics of its forward passes, and its status.
#pragma once

#include <cstddef>

#include <cordee/core/training_step.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/pinned.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/ops/loss.hpp>
#include <cordee/train/step/step.hpp>
#include <cordee/train/step/step_status.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// Enters what a step's kernels have found. `mixes`: buckets that are not finite became zero, and
/// the step is applied in any case.
inline void enter_status(step_outcome& out, const step_status& status, bool mixes) {
  out.squared_global_norm = status.squared_global_norm;
  out.squared_local_norm = status.squared_local_norm;
  out.overflows_statistics = status.nonfinite_statistics != 0;
  out.zeroed_buckets = mixes ? status.nonfinite_norms : 0;
  out.applied = mixes || status.nonfinite_norms == 0;
}

/// The results are read where they are: on the CPU, and of models without device metrics, whose
/// read_metrics may block the host.
template <class M, bool = nn::HasDeviceMetrics<M> && !M::device::host_memory>
class readback {
 public:
  using stream = typename M::device::stream;

  explicit readback(const typename M::device&) {}

  void begin(std::size_t /*passes*/) { sums_ = {}; }
  void copy_metrics(const M& model, stream s) {
    if constexpr (nn::HasDeviceMetrics<M>) {
      const ops::metric_sums& pass = *model.device_metrics().data;
      sums_ += pass;
      if constexpr (nn::HasHostMetrics<M>) sums_ += model.host_metrics();
      if (sums_.bad_sample == 0)
        sums_.bad_sample = pass.bad_sample, sums_.bad_label = pass.bad_label;
    } else {
      sums_ += model.read_metrics(s);
    }
  }
  template <class Planes>
  void copy_status(const Planes& planes, stream s) {
    status_ = planes.read_status(s);
  }
  void mark(stream) {}
  void wait() const {}

  /// Throws error if a label was out of range.
  [[nodiscard]] metrics metrics_of(const M& model) const {
    if constexpr (nn::HasDeviceMetrics<M>)
      return model.metrics_of(sums_);
    else
      return sums_;
  }
  [[nodiscard]] const step_status& status() const { return status_; }

 private:
  ops::metric_sums sums_;
  step_status status_;
};

/// Copies to page-locked memory, enqueued with the step's work, which the host reads after a single
/// wait. The wait is on a stream of its own, for an event of the compute stream and not for the
/// work behind it.
template <class M>
class readback<M, true> {
  using D = typename M::device;

 public:
  using stream = typename D::stream;

  explicit readback(const D& device)
      : device_(device), stream_(device.make_stream()), status_(device, 1), sums_(device, 1) {}

  /// For a step of so many forward passes.
  void begin(std::size_t passes) {
    sums_.reserve(passes);  // the copies of the step before are complete
    passes_ = 0;
    host_sums_ = {};
  }
  /// Enqueues a copy of the metrics of the forward pass launched last.
  void copy_metrics(const M& model, stream s) {
    if constexpr (nn::HasHostMetrics<M>) host_sums_ += model.host_metrics();
    const auto from = model.device_metrics();
    device_.copy(&sums_.span()[passes_++], from.data, sizeof(*from.data), s);
  }
  /// Enqueues a copy of the step's status as the work launched on `s` so far leaves it.
  template <class Planes>
  void copy_status(const Planes& planes, stream s) {
    device_.copy(status_.span().data(), planes.status(), sizeof(step_status), s);
  }
  /// wait() is for the work launched on `s` so far.
  void mark(stream s) { marked_ = device_.record(s); }
  [[nodiscard]] const typename D::event& marked() const { return marked_; }
  /// Blocks the host.
  void wait() const { device::wait_for(device_, marked_, stream_); }

  /// After wait(): the sum over the step's passes. Throws error if a label was out of range.
  [[nodiscard]] metrics metrics_of(const M& model) const {
    metrics sum = host_sums_;
    for (std::size_t k = 0; k < passes_; ++k) sum += model.metrics_of(sums_.span()[k]);
    return sum;
  }
  /// After wait().
  [[nodiscard]] const step_status& status() const { return status_.span()[0]; }

 private:
  D device_;
  stream stream_;
  typename D::event marked_{};
  device::pinned<step_status, D> status_;
  device::pinned<ops::metric_sums, D> sums_;
  std::size_t passes_ = 0;
  metrics host_sums_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::train
