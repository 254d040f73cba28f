// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a step copies from the device to the host: the metrics of a forward pass, the step's status.
#pragma once

#include <cordee/core/training_step.hpp>
#include <cordee/train/step_status.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// Copies on a stream of its own, which waits for an event of the compute stream and not for the
/// work behind it: the host reads a result while the device computes. On the CPU, whose events and
/// streams are empty, it is a plain read.
template <Device D>
class readback {
 public:
  using stream = typename D::stream;
  using event = typename D::event;

  explicit readback(const D& device) : device_(device), readback_stream_(device.make_stream()) {}

  /// The metrics of the model's last forward pass, which ended before `event`. Blocks the host.
  template <class M>
  [[nodiscard]] metrics metrics_at(const event& after_forward, M& model) const {
    device_.await(readback_stream_, after_forward);
    return model.read_metrics(readback_stream_);
  }
  /// The status that the planes' kernels had written by `event`. Blocks the host.
  template <class Planes>
  [[nodiscard]] step_status status_at(const event& written, const Planes& planes) const {
    device_.await(readback_stream_, written);
    return planes.read_status(readback_stream_);
  }
  [[nodiscard]] stream on() const { return readback_stream_; }

 private:
  D device_;
  stream readback_stream_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::train
