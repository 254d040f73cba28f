// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Post-training quantisation: the ranges of a network that FP32 trained, without a step.
//
//   1. FP32 runs `batches` updates of a loader, as evaluation does: each layer's range is what its
//      input spans, over all ranks, or its middle (quantisation.percentile)
//   2. FP32 runs the last of them again, each layer in bytes beside it: error = |y8 - y| / |y|,
//      saturation = the share of its inputs that lie beyond the range
//
// Load the weights into the network in int8 first. Batch norm uses its running statistics.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <cordee/comm/agree.hpp>
#include <cordee/core/text.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/train/fit.hpp>
#include <cordee/train/observe.hpp>

namespace cordee::inline CORDEE_ABI {

/// How one layer takes to bytes.
struct calibrated_layer {
  std::string name;
  double low = 0, high = 0;          // the range of its input
  double error = 0, saturation = 0;  // shares
};

namespace detail {
/// Whatever happens, the network runs in bytes again.
struct quantised_again {
  quantisation_watch& watch;
  ~quantised_again() { watch.how = quantisation_watch::runs::quantised; }
};
}  // namespace detail

/// Collective. The ranges stand among the running statistics, and are saved with them.
template <class Run, Feed F>
std::vector<calibrated_layer> calibrate(Run& run, F& feed, int batches) {
  using M = typename Run::model_type;
  static_assert(Quantised<typename M::precision>,
                "calibrate finds the ranges of a network in int8: load the weights into one");
  static_assert(M::device::host_memory,
                "calibrate runs on the CPU: its ranges are saved with the weights, and a GPU loads "
                "both");
  expects(batches > 0, "calibrate: ranges need at least one batch");
  M& model = run.model();
  quantisation_watch& watch = model.quantisation.watch;
  const detail::quantised_again after{watch};
  upload<typename Run::device> there(model.where());
  return run.together([&] {
    const auto evaluate = [&](std::span<const batch<typename Run::device>> micro) {
      for (const auto& b : micro)
        model.forward(run.image(), run.weights(), b, phase::evaluate, run.compute());
    };
    (void)watch.take(false);
    (void)watch.take_counts(false);
    watch.how = quantisation_watch::runs::observed;
    std::span<const batch<typename Run::device>> micro;
    for (int k = 0; k < batches; ++k) evaluate(micro = there.to(feed.next(), run.compute()));
    const std::vector<double> minima = seen_by_all(model.quantisation, run.link(), true);
    constexpr double infinity = std::numeric_limits<double>::infinity();
    for (const layer_watch& layer : watch.layers) {  // old ranges do not count
      run.weights()[layer.low] = static_cast<typename Run::Real>(infinity);
      run.weights()[layer.high] = static_cast<typename Run::Real>(-infinity);
    }
    model.quantisation.learn(run.weights().data, minima, 0);
    for (layer_watch& layer : watch.layers)
      layer.error = layer.square = layer.clipped = layer.count = 0;
    watch.how = quantisation_watch::runs::compared;
    evaluate(micro);

    std::vector<double> sums;
    for (const layer_watch& one : watch.layers)
      sums.insert(sums.end(), {one.error, one.square, one.clipped, one.count});
    agree(run.link(), std::span(sums), sum{});
    std::vector<calibrated_layer> report;
    for (std::size_t k = 0; k < watch.layers.size(); ++k) {
      const double* const s = sums.data() + 4 * k;
      report.push_back({std::string(watch.layers[k].name), minima[2 * k], -minima[2 * k + 1],
                        s[1] > 0 ? std::sqrt(s[0] / s[1]) : 0, s[3] > 0 ? s[2] / s[3] : 0});
    }
    return report;
  });
}

}  // namespace cordee::inline CORDEE_ABI
