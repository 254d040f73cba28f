// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A pass's metrics, kept for a step that runs the model's passes again: on the host, or where the
// model has them, in its device's memory, which costs no wait.
#pragma once

#include <type_traits>
#include <utility>

#include <cordee/core/training_step.hpp>
#include <cordee/device/arena.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/nn/model.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

/// The metrics of a pass, which a later one does not change.
template <class M>
class saved_metrics {
 public:
  explicit saved_metrics(const typename M::device&) {}
  void save(const M& model, typename M::device::stream s) { metrics_ = model.read_metrics(s); }
  [[nodiscard]] metrics read(const M&, typename M::device::stream) const { return metrics_; }

 private:
  metrics metrics_{};
};
template <HasDeviceMetrics M>
class saved_metrics<M> {
  using D = typename M::device;
  using sums_type = std::remove_cvref_t<decltype(*std::declval<const M&>().device_metrics().data)>;

 public:
  explicit saved_metrics(const D& device) : sums_(device, 1) {}
  void save(const M& model, typename D::stream s) {
    model.get_device().copy(sums_.span().data, model.device_metrics().data, sizeof(sums_type), s);
    if constexpr (HasHostMetrics<M>) host_ = model.host_metrics();
  }
  [[nodiscard]] span_on<const sums_type, D> sums() const { return sums_.span(); }
  [[nodiscard]] metrics host() const { return host_; }
  [[nodiscard]] metrics read(const M& model, typename D::stream s) const {
    return metrics(host_) += model.metrics_of(copy_to_host(model.get_device(), sums(), s)[0]);
  }

 private:
  buffer<sums_type, D> sums_;
  metrics host_{};
};

}  // namespace cordee::inline CORDEE_ABI::detail::nn
