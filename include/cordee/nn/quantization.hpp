// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Running ranges of the inputs of convolutions in a network of precision int8.
//
//   low  <- low  + averaging (smallest - low)
//   high <- high + averaging (largest - high)
//
// over the inputs of one step on all ranks; a percentile below 100 drops both tails
// (ops/histogram.hpp). The first step sets the range. Forward observes minima and maxima, the
// trainer reduces them over ranks once for each step, and then updates the ranges, equally on every
// rank. They are running statistics, saved with the weights as input_min and input_max.
//
// On a GPU, forward observes in device memory; the host reads the observations once for each step,
// after its wait for the step's status, and a kernel updates the ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/limits.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/device/pinned.hpp>
#include <cordee/nn/backend.hpp>
#include <cordee/ops/cpu/histogram.hpp>
#include <cordee/ops/cpu/quantize.hpp>
#include <cordee/precision/precision.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

/// The observations of one layer since they were last taken, and its error when compared with FP32.
struct layer_observer {
  std::string_view name;
  std::size_t low_offset = 0, high_offset = 0;  // of its range in a plane
  ops::real_range observed{};
  double squared_error = 0, squared_norm = 0;  // sums of (y - y32)^2 and of y32^2
  double clipped = 0, count = 0;               // inputs outside the range, and all inputs
  std::vector<double> filter_errors{};         // (filters), sums of y - y32
  double outputs = 0;                          // numbers in each of these sums

  /// Adds the errors of y beside FP32's y32, both (samples, filters / block, pixels, block).
  template <class N>
  [[gnu::cold]] void add_errors(std::size_t samples, const extent& out, std::size_t block,
                                const N* y, const N* y32) {
    const std::size_t pixels = out.pixels(), row = block * pixels,
                      filters = static_cast<std::size_t>(out.channels),
                      padded = (filters + block - 1) / block * block;
    filter_errors.resize(padded);
    for (std::size_t i = 0; i < samples * padded * pixels; ++i) {
      const double exact = y32[i], error = y[i] - exact;
      squared_error += error * error;
      squared_norm += exact * exact;
      filter_errors[i % (padded * pixels) / row * block + i % block] += error;
    }
    filter_errors.resize(filters);  // behind them are zeros
    outputs += static_cast<double>(samples * pixels);
  }
};

/// The observations of all layers of a network, and the mode in which layers run.
struct quantization_observer {
  ///   quantized   int8, for training and evaluation
  ///   observed    FP32, observing ranges
  ///   compared    FP32, and int8 beside each layer to measure its error
  ///   single      FP32, but for one layer
  enum class run_mode { quantized, observed, compared, single } mode = run_mode::quantized;
  std::size_t single_layer = 0;  // the one in int8; none if there is no such layer
  std::vector<layer_observer> layers;
  std::vector<double> counts;   // (layers, bins), histograms of the inputs, where they are counted
  bool counts_numbers = false;  // also if percentile is 100: calibrate chooses ranges by histograms

  [[nodiscard]] bool is_quantized(std::size_t layer) const {
    return mode == run_mode::quantized || (mode == run_mode::single && layer == single_layer);
  }
  /// Adds a layer for each range of the table, so that a rank without samples takes part in
  /// updates.
  [[gnu::cold]] void add_layers(std::span<const segment> table) {
    constexpr std::string_view suffix = ".input_min";
    for (std::size_t k = 0; k + 1 < table.size(); ++k)
      if (const auto name = table[k].name; name.ends_with(suffix))
        layers.push_back({name.substr(0, name.size() - suffix.size()),
                          table[k].offset,
                          table[k + 1].offset,
                          {}});
  }
  /// Returns and resets the observed ranges as minima, (low, -high) of each layer: infinite, as if
  /// nothing was observed, if the step does not `count`.
  [[nodiscard]] std::vector<double> take_minima(bool count) {
    std::vector<double> minima(2 * layers.size());
    for (std::size_t k = 0; k < layers.size(); ++k) {
      ops::real_range& observed = layers[k].observed;
      if (!count) observed = {};
      minima[2 * k] = observed.low;
      minima[2 * k + 1] = -observed.high;
      observed = {};
    }
    return minima;
  }
  /// Returns and resets the histograms, (layers, bins); zero if the step does not `count`.
  [[nodiscard]] std::vector<double> take_histograms(bool count) {
    if (!count) counts.clear();
    counts.resize(layers.size() * ops::histogram_bins::count);
    return std::exchange(counts, {});
  }
};

/// The update of one layer's range in a plane by the range low .. high that all ranks observed in a
/// step.
struct range_update {
  std::size_t low_offset, high_offset;
  double low, high, averaging;
  bool frozen;

  template <class Real>
  CORDEE_HOST_DEVICE void operator()(Real* plane) const {
    Real &running_low = plane[low_offset], &running_high = plane[high_offset];
    const bool first = !(running_low <= running_high);
    if (!(low <= high) || (!first && frozen)) return;
    const auto average = [this, first](double running, double observed) {
      return static_cast<Real>(first ? observed : running + averaging * (observed - running));
    };
    running_low = average(running_low, low);
    running_high = average(running_high, high);
  }
};

/// For int8: options of the running ranges, and the observations.
struct quantization_options {
  double averaging = 0.01;
  double percentile = 100;  // of the inputs of a step; above 50, at most 100
  double freeze_ranges_at = core::limits<double>::infinity();  // epoch
  nn::quantization_observer observer{};

  [[gnu::cold]] void check() const {
    expects(averaging >= 0 && averaging <= 1,
            "quantization.averaging is the weight of a step in a running range, 0 to 1");
    expects(percentile > 50 && percentile <= 100,
            "quantization.percentile is above 50 and at most 100");
    expects(freeze_ranges_at == freeze_ranges_at,
            "quantization.freeze_ranges_at is NaN: give an epoch, or infinity for never");
  }
  /// Adds the inputs x of layer k, whose range is `range`. `filling` of the n numbers are zeros
  /// that pad blocks of channels and are not counted.
  void observe(std::size_t k, const ops::real_range& range, std::size_t n, const float* x,
               cpu::stream s, std::size_t filling = 0) {
    nn::layer_observer& layer = observer.layers[k];
    layer.observed.widen(range);
    if (percentile >= 100 && !observer.counts_numbers) return;
    observer.counts.resize(observer.layers.size() * ops::histogram_bins::count);
    add_to_histogram(
        n, x, {observer.counts.data() + k * ops::histogram_bins::count, ops::histogram_bins::count},
        s, filling);
  }

  /// Replaces the minima of all ranks by those without the tails that the percentile drops.
  void clip_to_percentile(std::span<double> minima, std::span<const double> counts) const {
    check();
    choose_ranges(minima, counts, [this](auto bins, const ops::real_range& extremes) {
      return ops::percentile_range(bins, extremes, percentile);
    });
  }
  /// Replaces the minima of each layer by those of the range choose(its histogram, its extremes).
  template <class Choose>
  void choose_ranges(std::span<double> minima, std::span<const double> counts,
                     const Choose& choose) const {
    constexpr std::size_t bins = ops::histogram_bins::count;
    expects(counts.size() == observer.layers.size() * bins,
            "quantization: the counts are not one histogram for each layer");
    for (std::size_t k = 0; k < observer.layers.size(); ++k) {
      double *low = &minima[2 * k], *high = low + 1;
      const ops::real_range chosen =
          choose(counts.subspan(k * bins, bins),
                 ops::real_range{static_cast<float>(*low), static_cast<float>(-*high)});
      *low = chosen.low;
      *high = -chosen.high;
    }
  }

  /// The update of layer k's range by the minima of all ranks. An empty range changes nothing.
  [[nodiscard]] nn::range_update update_of(std::size_t k, std::span<const double> minima,
                                           double epoch) const {
    expects(minima.size() == 2 * observer.layers.size(),
            "quantization: the minima are not one range for each layer");
    const nn::layer_observer& layer = observer.layers[k];
    return {layer.low_offset,   layer.high_offset, minima[2 * k],
            -minima[2 * k + 1], averaging,         epoch >= freeze_ranges_at};
  }
  void add_layers(const auto& /*device*/, std::span<const segment> table) {
    observer.add_layers(table);
  }
  /// Updates the ranges in `plane`.
  template <class Real>
  void update_ranges(Real* plane, std::span<const double> minima, double epoch) const {
    for (std::size_t k = 0; k < observer.layers.size(); ++k) update_of(k, minima, epoch)(plane);
  }
};

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_unknown_range(std::string_view name) {
  throw error(concat("layer \"", name, "\" has no range of its input: train the network in int8, ",
                     "load weights of such a network, or calibrate it"));
}

template <class Real>
struct update_ranges_op {
  const range_update* updates;
  Real* plane;
  ops::observed_input* records;
  CORDEE_DEVICE void operator()(std::size_t k) const {
    updates[k](plane);
    records[k].observed = {};
  }
};

/// The same for a GPU, whose kernels observe in device memory.
template <class D>
struct quantization_on : quantization_options {
  using stream = typename D::stream;

  buffer<ops::observed_input, D> records;
  buffer<double, D> counts;  // (layers, bins)
  buffer<range_update, D> updates;
  buffer<std::uint8_t, D> bytes;  // the input of the layer in progress
  // The host's copies, page-locked. The second is made for a percentile.
  device::pinned<ops::observed_input, D> records_on_host;
  device::pinned<double, D> counts_on_host;
  bool copied_counts = false;

  void add_layers(const D& device, std::span<const segment> table) {
    observer.add_layers(table);
    const std::size_t layers = observer.layers.size();
    records = {device, layers};
    counts = {device, layers * ops::histogram_bins::count};
    updates = {device, layers};
    bytes = {device, 0};
    records_on_host = {device, layers};
    const std::vector<ops::observed_input> initial(layers);
    const stream s{};
    device.copy(records.span().data, initial.data(), layers * sizeof(ops::observed_input), s);
    device.finish(s);
  }

  /// Enqueues copies of the device's observations, behind the forward passes on `s`.
  void copy_observations(const D& device, stream s) {
    const std::size_t numbers = percentile < 100 ? counts.size() : 0;
    if (numbers > counts_on_host.span().size()) counts_on_host = {device, numbers};
    device.copy(records_on_host.span().data(), records.span().data,
                records.size() * sizeof(ops::observed_input), s);
    device.copy(counts_on_host.span().data(), counts.span().data, numbers * sizeof(double), s);
    copied_counts = numbers > 0;
  }
  /// Enters what was copied into the observer, once the copies are complete.
  void enter_observations() {
    for (std::size_t k = 0; k < records.size(); ++k)
      observer.layers[k].observed = records_on_host.span()[k].observed;
    if (copied_counts)
      observer.counts.assign(counts_on_host.span().begin(), counts_on_host.span().end());
  }
  /// Updates the ranges in the device's `plane`, and resets the device's observations.
  template <class Real>
  void update_ranges(const D& device, Real* plane, std::span<const double> minima, double epoch,
                     stream s) {
    std::vector<range_update> host;
    for (std::size_t k = 0; k < observer.layers.size(); ++k)
      host.push_back(update_of(k, minima, epoch));
    device.copy(updates.span().data, host.data(), host.size() * sizeof(range_update), s);
    // for a GPU by argument-dependent lookup: device/gpu_kernel.hpp
    for_each(s, host.size(),
             update_ranges_op<Real>{updates.span().data, plane, records.span().data});
    device.clear(counts.span().data, counts.size() * sizeof(double), s);
  }
  /// After an evaluation: throws error unless every layer had a range. Blocks the host.
  void expect_ranges(const D& device, stream s) const {
    const auto host = copy_to_host(device, records.span(), s);
    for (std::size_t k = 0; k < host.size(); ++k)
      if (host[k].has_range == 0) throw_unknown_range(observer.layers[k].name);
  }
};

template <Quantized P, class D>
struct quantization_traits<P, D> {
  using type = std::conditional_t<D::host_memory, quantization_options, quantization_on<D>>;
};

}  // namespace cordee::inline CORDEE_ABI::detail::nn
