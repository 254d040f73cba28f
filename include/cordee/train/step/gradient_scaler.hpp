// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Loss scaling within a step: the loss is multiplied by S before backward, each bucket of the
// gradient by 1/S when it is ready, and S is updated when the whole gradient has been tested.
//
// S is part of the step's status in the device's memory, so kernels of a captured step read its
// current value; the host's copy, in the run's state, is the one that was read back last.
#pragma once

#include <cordee/core/training_step.hpp>
#include <cordee/ops/cpu/elementwise.hpp>
#include <cordee/train/step/loss_scale.hpp>
#include <cordee/train/step/step_status.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// Precisions that do not scale their loss: S = 1, nothing is done.
template <class P, Device D, bool = P::scales_loss>
class gradient_scaler {
 public:
  using stream = typename D::stream;
  using Real = typename P::master;

  gradient_scaler(const D&, const loss_scaling&, step_status*, loss_scale&, stream) {}
  void restore(const D&, stream) const {}
  [[nodiscard]] double scale() const { return 1; }
  [[nodiscard]] span_on<const float, D> device_scale() const { return {}; }
  [[nodiscard]] const float* device_factor() const { return nullptr; }
  void unscale(span_on<Real, D>, stream) const {}
  template <class Stream = stream>
  void update(Stream) const {}
  void set_host_scale(const step_status&) {}
};

/// `status` is in the device's memory, `host` is the host's copy; both outlive this object.
template <class P, Device D>
class gradient_scaler<P, D, true> {
 public:
  using stream = typename D::stream;
  using Real = typename P::master;

  /// Sets the first step's scale in `status`. Throws usage_error for options without meaning.
  gradient_scaler(const D& device, const loss_scaling& options, step_status* status,
                  loss_scale& host, stream s)
      : options_(options), status_(status), host_(host) {
    host_ = loss_scale::first(options);
    restore(device, s);
  }

  /// Sets the next step's scale in `status` to the host's copy.
  void restore(const D& device, stream s) const {
    step_status next;
    next.scale = host_;
    next.unscale = next.scale.inverse();
    device.copy(status_, &next, sizeof(next), s);
  }

  /// S of the next step's loss: the host's copy.
  [[nodiscard]] double scale() const { return host_.value; }
  /// S where kernels read it.
  [[nodiscard]] span_on<const float, D> device_scale() const { return {&status_->scale.value, 1}; }

  /// 1 / S where kernels read it; null if S is always 1.
  [[nodiscard]] const float* device_factor() const { return &status_->unscale; }
  /// gradient <- gradient / S
  void unscale(span_on<Real, D> gradient, stream s) const {
    // for a GPU by argument-dependent lookup: ops/gpu/elementwise.hpp
    using cordee::detail::ops::scale;
    const float* const factor = &status_->unscale;
    if constexpr (D::host_memory)
      scale(gradient.size, static_cast<Real>(*factor), gradient.data, s);
    else
      scale(gradient.size, factor, gradient.data, s);
  }
  /// S of the next step. Requires that all norms of this step have been recorded.
  template <class Stream = stream>
  void update(Stream s) const {
    // for a GPU by argument-dependent lookup: device/gpu_kernel.hpp
    launch_single(s, rescale_op{options_, status_});
  }
  /// Takes over the updated S from a status that was read back.
  void set_host_scale(const step_status& read) { host_ = read.scale; }

 private:
  loss_scaling options_;
  step_status* status_;
  loss_scale& host_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::train
