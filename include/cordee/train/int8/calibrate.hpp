// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Post-training quantisation: finds the activation ranges of a network trained in fp32.
//
//   1. forward passes in fp32 over `batches` updates of a loader, batch norm as in evaluation:
//      a layer's range is [min x, max x] of its input over all ranks, or the percentile of it that
//      quantization.percentile names, or what `choice` takes from its histogram:
//      mean_squared_error_range{} (ops/mean_squared_error_range.hpp), entropy_range{}
//      (ops/entropy_range.hpp)
//   2. the last of them again, each layer in fp32 (y) and in int8 (y8):
//      error = |y8 - y| / |y|        saturation = share of inputs x outside of the range
//      filter_errors = means of y8 - y, which train/int8/correct_bias.hpp subtracts
//
// Requires that the weights have been loaded into the int8 network.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/math.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/quantization.hpp>
#include <cordee/train/input/feed.hpp>
#include <cordee/train/input/upload.hpp>
#include <cordee/train/measure/evaluate.hpp>
#include <cordee/train/step/observe.hpp>

namespace cordee::inline CORDEE_ABI {

/// The quantization of one layer.
struct calibrated_layer {
  std::string name;          ///< The layer's name in the network.
  double low = 0, high = 0;  ///< Range of its input.
  /// Relative error of its output, 0 or more, and share of its inputs outside the range, 0 to 1.
  double error = 0, saturation = 0;
  std::vector<double> filter_errors;  ///< Mean error of each filter.
};

namespace detail::train {
/// Sets the network back to int8 at the end of a scope.
struct quantized_mode_guard {
  nn::quantization_observer& observer;
  ~quantized_mode_guard() {
    observer.mode = nn::quantization_observer::run_mode::quantized;
    observer.counts_numbers = false;
  }
};
/// The extremes, or the percentile of the network's options.
struct range_of_options {};
/// Chooses a range by the counts of a histogram (ops/histogram.hpp) and the extremes.
template <class R>
concept RangeChoice =
    requires(const R& r, std::span<const double> counts, const ops::real_range& extremes) {
      { r.choose(counts, extremes) } -> std::same_as<ops::real_range>;
    };
}  // namespace detail::train

/// Sets the ranges, which are stored with the running statistics, and returns the layers'
/// quantization errors. Collective. @throws usage_error for no batches, and for a percentile that
/// is meaningless or conflicts with a choice; error for a feed whose shape, normalization or
/// classes differ from training's.
template <class Run, detail::train::Feed F, class R = detail::train::range_of_options>
  requires(detail::train::RangeChoice<R> || std::same_as<R, detail::train::range_of_options>)
std::vector<calibrated_layer> calibrate(Run& run, F& feed, int batches, const R& choice = {}) {
  using M = typename Run::model_type;
  static_assert(Quantized<typename M::precision>,
                "calibrate finds the ranges of a network in int8: load the weights into one");
  static_assert(M::device::host_memory,
                "calibrate runs on the CPU: its ranges are saved with the weights, and a GPU loads "
                "both");
  return run.abort_peers_on_throw([&] {
    expects(batches > 0, "calibrate: ranges need at least one batch");
    M& model = run.model();
    model.quantization.check();
    detail::train::expect_shapes_match<M>(feed, "loader of calibrate");
    detail::train::expect_data_of(run, feed.normalization(), detail::train::class_name_list(feed),
                                  "calibrate: the loader");
    if constexpr (detail::train::RangeChoice<R>)
      expects(
          model.quantization.percentile == 100,
          "calibrate: quantization.percentile and a choice of ranges, such as "
          "mean_squared_error_range, are two choices of the same ranges: leave the percentile at "
          "100, or calibrate without the choice");
    detail::nn::quantization_observer& observer = model.quantization.observer;
    const detail::train::quantized_mode_guard guard{observer};
    upload<typename Run::device> uploaded(model.get_device());
    const auto evaluate = [&](std::span<const batch<typename Run::device>> micro) {
      for (const auto& b : micro)
        model.forward(run.packed_parameters(), run.weights(), b, phase::evaluate, run.compute());
    };
    (void)observer.take_minima(false);
    (void)observer.take_histograms(false);
    observer.mode = detail::nn::quantization_observer::run_mode::observed;
    observer.counts_numbers = detail::train::RangeChoice<R>;
    std::span<const batch<typename Run::device>> micro;
    for (int k = 0; k < batches; ++k) evaluate(micro = uploaded.to(feed.next(), run.compute()));
    std::vector<double> histograms;
    if constexpr (detail::train::RangeChoice<R>)
      histograms = detail::train::allreduce_histograms(model.quantization, run.comm(), true);
    std::vector<double> minima =
        detail::train::allreduce_ranges(model.quantization, run.comm(), true);
    if constexpr (detail::train::RangeChoice<R>)
      model.quantization.choose_ranges(
          {minima.data(), minima.size()}, {histograms.data(), histograms.size()},
          [&](auto counts, const auto& extremes) { return choice.choose(counts, extremes); });
    constexpr double infinity = std::numeric_limits<double>::infinity();
    for (const detail::nn::layer_observer& layer : observer.layers) {  // discard old ranges
      run.weights()[layer.low_offset] = static_cast<typename Run::Real>(infinity);
      run.weights()[layer.high_offset] = static_cast<typename Run::Real>(-infinity);
    }
    model.quantization.update_ranges(run.weights().data, minima, 0);
    for (detail::nn::layer_observer& layer : observer.layers)
      layer = {layer.name, layer.low_offset, layer.high_offset, {}};
    observer.mode = detail::nn::quantization_observer::run_mode::compared;
    evaluate(micro);

    std::vector<double> sums;  // |y8 - y|^2, |y|^2, outside, all, outputs, errors of filters
    for (detail::nn::layer_observer& layer : observer.layers) {
      sums.insert(sums.end(), {layer.squared_error, layer.squared_norm, layer.clipped, layer.count,
                               layer.outputs});
      sums.insert(sums.end(), layer.filter_errors.begin(), layer.filter_errors.end());
    }
    allreduce_host(run.comm(), std::span(sums), reduce_op::sum);
    std::vector<calibrated_layer> report;
    const double* s = sums.data();
    for (std::size_t k = 0; k < observer.layers.size(); ++k) {
      const std::size_t filters = observer.layers[k].filter_errors.size();
      report.push_back({std::string(observer.layers[k].name),
                        minima[2 * k],
                        -minima[2 * k + 1],
                        s[1] > 0 ? detail::core::sqrt(s[0] / s[1]) : 0,
                        s[3] > 0 ? s[2] / s[3] : 0,
                        {s + 5, s + 5 + filters}});
      for (double& error : report.back().filter_errors) error /= std::max(s[4], 1.0);
      s += 5 + filters;
    }
    return report;
  });
}

}  // namespace cordee::inline CORDEE_ABI
