// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What ranks reduce beside gradients: the ranges of quantised layers, once per step, and frozen
// running statistics, once per run.
//
// Ranges take one message for all layers, and one of histograms if a percentile is set; precisions
// that do not quantise send nothing.
#pragma once

#include <span>
#include <vector>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/train/step/readback.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// Throws usage_error for settings of a model without meaning.
template <class M>
void check_model(const M& model) {
  if constexpr (requires { model.check(); }) model.check();
}

/// The sums over ranks of the layers' histograms. Collective.
template <class Quantization, class Communicator>
std::vector<double> allreduce_histograms(Quantization& q, const Communicator& comm, bool counts) {
  std::vector<double> histograms = q.observer.take_histograms(counts);
  allreduce_host(comm, {histograms.data(), histograms.size()}, reduce_op::sum);
  return histograms;
}

/// The minima over ranks of each layer's (low, -high). A rank whose step does not count contributes
/// nothing. Collective.
template <class Quantization, class Communicator>
std::vector<double> allreduce_ranges(Quantization& q, const Communicator& comm, bool counts) {
  std::vector<double> minima = q.observer.take_minima(counts);
  allreduce_host(comm, {minima.data(), minima.size()}, reduce_op::min);
  if (q.percentile < 100) {
    const std::vector<double> histograms = allreduce_histograms(q, comm, counts);
    q.clip_to_percentile({minima.data(), minima.size()}, {histograms.data(), histograms.size()});
  }
  return minima;
}

/// In the step where the model's batch norms freeze, replaces running statistics by their exact
/// mean over ranks. Collective.
template <class M, class Communicator, class Span, class Stream>
void average_frozen_statistics(const M& model, const Communicator& comm, Span statistics,
                               double previous_epoch, double epoch, Stream s) {
  if constexpr (requires { model.freeze_batch_norm_at; })
    if (previous_epoch < model.freeze_batch_norm_at && epoch >= model.freeze_batch_norm_at)
      comm::allreduce_mean(comm, model.get_device(), statistics, s);
}

/// Enqueues copies of what the forward passes on `s` have observed in a device's memory.
template <class M, class Stream>
void copy_observations(M& model, Stream s) {
  if constexpr (requires { model.quantization.records; }) {
    static_assert(nn::HasDeviceMetrics<M>,
                  "a model that observes ranges on a GPU has device metrics: without them the host "
                  "does not wait for the copies");
    model.quantization.copy_observations(model.get_device(), s);
  }
}

/// Reduces the ranges that the step's forward passes observed and moves the layers' ranges towards
/// them; a step that does not count is discarded. The copies of a device's observations are
/// complete. Collective.
template <class M, class Communicator, class Plane, class Stream = cpu::stream>
void update_ranges(M& model, const Communicator& comm, Plane weights, const step_info& info,
                   bool counts, Stream s = {}) {
  if constexpr (requires { model.quantization.records; }) {
    auto& q = model.quantization;
    q.enter_observations();
    q.update_ranges(model.get_device(), weights.data, allreduce_ranges(q, comm, counts), info.epoch,
                    s);
  } else if constexpr (requires { model.quantization.observer; }) {
    auto& q = model.quantization;
    q.update_ranges(weights.data, allreduce_ranges(q, comm, counts), info.epoch);
  }
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
