// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the host does behind the passes of a step that it updates (host_update.hpp).
#pragma once

#include <cordee/core/trace.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/train/step/readback.hpp>
#include <cordee/train/step/step.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// The rest of a step behind its passes: `meanwhile` runs while the device computes; then the host
/// decides, and updates. Collective.
template <class M, class Exchange, class Planes, class Scaler, class Readback, class Work>
[[gnu::cold]] void finish_on_host(const M& model, typename M::packed_parameters& packed,
                                  Exchange& exchange, Planes& planes, Scaler& scaler,
                                  const Readback& readback, step_outcome& out, bool checks,
                                  typename M::device::stream s, const Work& meanwhile) {
  using optimizer = typename Exchange::optimizer_type;
  auto& host = exchange.host();
  if (exchange.blocks_host()) meanwhile();
  exchange.finish(s);
  host.mark(s);
  if (!exchange.blocks_host()) meanwhile();
  exchange.wait(host);  // from here on the host alone reads gradients and status
  const core::trace_range range("update");
  const cpu::stream workers = host.workers();
  const float* const unscale = scaler.device_factor();
  out.train = readback.metrics_of(model);
  host.widen(unscale != nullptr ? static_cast<typename Planes::real>(*unscale) : 1);
  if (checks) {
    constexpr bool weights_too = optim::norms_of<optimizer> == norms_needed::before_accept;
    planes.template compute_norms<cpu>(planes.trainables(), 0, weights_too, workers);
    planes.record_norms(planes.trainables(), 0, true, workers);
    scaler.update(workers);
    enter_status(out, *planes.status(), false);
    scaler.set_host_scale(*planes.status());
  }
  planes.undo_if_nonfinite(true, s);
  if (!out.applied) return;
  exchange.accept(planes.template view_of<cpu>(planes.trainables(), 0, true), workers);
  host.upload(model, packed, s);
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
