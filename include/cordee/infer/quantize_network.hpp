// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Post-training quantization in one call: a trainer's floating-point network and calibration images
// become an integer network.
//
//   auto net = quantize_network(run, feed, 8);  // ranges of min and max
//   auto net = quantize_network(run, feed, 8, {.percentile = 99.99, .correct_bias = true});
//   auto net = quantize_network(run, feed, 8, {.range = mean_squared_error_range{}});
//   auto [net, report] = quantize_network(run, feed, 8, {.equalize_layers = true}, images);
//
// On an int8 copy, as far as the options ask for them: equalize_layers
// (infer/quantize/equalize_layers.hpp), calibrate (train/int8/calibrate.hpp),
// quantization_report::from (train/int8/quantization_report.hpp), correct_bias
// (train/int8/correct_bias.hpp); then integer_network::from. The trainer's network is unchanged.
// Trainer and loader are those of training: the mean model of all ranks is calibrated on batches of
// all ranks, and every rank gets the same network.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/data/dataset.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/infer/integer_network.hpp>
#include <cordee/infer/quantize/equalize_layers.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/direct/engine.hpp>
#include <cordee/ops/quantize.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/train/int8/calibrate.hpp>
#include <cordee/train/int8/correct_bias.hpp>
#include <cordee/train/int8/quantization_report.hpp>
#include <cordee/train/measure/evaluate.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::infer {

template <class Root, Precision P, class D, class Engine, extent Input, int Classes, class L>
network<Root, int8, cpu, typename engine_for<cpu, int8>::type, Input, Classes, L> in_int8(
    const network<Root, P, D, Engine, Input, Classes, L>*);
/// The network of N's layers in int8.
template <class N>
using int8_of = decltype(in_int8(static_cast<const N*>(nullptr)));

/// A choice of ranges of any type that calibrate takes; by default none.
class any_range {
 public:
  any_range() = default;
  template <train::RangeChoice R>
  any_range(R choice)  // implicitly, for designated initializers
      : choose_([choice = std::move(choice)](std::span<const double> counts,
                                             const ops::real_range& extremes) {
          return choice.choose(counts, extremes);
        }) {}

  [[nodiscard]] bool has_value() const { return choose_ != nullptr; }
  [[nodiscard]] ops::real_range choose(std::span<const double> counts,
                                       const ops::real_range& extremes) const {
    return choose_(counts, extremes);
  }

 private:
  std::function<ops::real_range(std::span<const double>, const ops::real_range&)> choose_;
};

/// A copy in int8 of a trainer's mean model, as a trainer for calibrate, correct_bias and
/// quantization_report.
template <class Run>
class int8_copy {
 public:
  using model_type = int8_of<typename Run::model_type>;
  using device = cpu;
  using Real = float;

  explicit int8_copy(Run& run)
      : run_(run),
        model_(run.model().get_device()),
        packed_(model_.make_packed_parameters()),
        plane_(model_.get_device(), model_type::plane_size()) {
    std::fill_n(weights().data, weights().size, 0.0F);
    const auto trained = run.weights();
    for (const segment& to : model_type::segments())
      for (const segment& from : run.segments())
        if (from.name == to.name) {
          expect_finite(from.name, {trained.data + from.offset, from.size});
          std::copy_n(trained.data + from.offset, from.size, weights().data + to.offset);
        }
    adopt_weights();
  }

  /// What was written to the weights takes effect. It is the same on every rank.
  void adopt_weights() { model_.pack_parameters(weights(), packed_, compute()); }

  [[nodiscard]] model_type& model() { return model_; }
  [[nodiscard]] static std::span<const segment> segments() { return model_type::segments(); }
  [[nodiscard]] auto weights() { return plane_.span(); }
  [[nodiscard]] auto& packed_parameters() { return packed_; }
  [[nodiscard]] auto compute() const { return run_.compute(); }
  [[nodiscard]] const auto& comm() const { return run_.comm(); }
  [[nodiscard]] auto& fit_state() { return run_.fit_state(); }
  template <class F>
  auto abort_peers_on_throw(const F& f) {
    return run_.abort_peers_on_throw(f);
  }
  template <class F>
  auto with_mean_model(const F& f) {
    return f();
  }
  template <class Data>
  metrics evaluate(const Data& images, const normalization& norm, int batch_size = 250) {
    return train::evaluate(*this, images, norm, batch_size);
  }

 private:
  static void expect_finite(std::string_view name, std::span<const float> numbers) {
    for (const float x : numbers)
      if (!std::isfinite(x))
        throw error(concat("quantize_network: \"", name, "\" has a number that is ", x,
                           ": the training has failed, load earlier weights"));
  }

  Run& run_;
  model_type model_;
  typename model_type::packed_parameters packed_;
  buffer<float, cpu> plane_;
};

}  // namespace detail::infer

/// Options of quantize_network.
struct quantize_network_options {
  /// Percentage of a layer's inputs that its range covers, as quantization.percentile of an int8
  /// network; 100: the extremes. Unit: percent. Range: 50 < percentile <= 100 (100 beside .range),
  /// else usage_error.
  double percentile = 100;
  /// Chooses a layer's range instead of a percentile: mean_squared_error_range{}, entropy_range{},
  /// or another type with a member `choose`; empty: the percentile.
  detail::infer::any_range range{};
  /// Whether weights are scaled between layers before calibration (cross-layer equalization).
  bool equalize_layers = false;
  /// Whether running means of batch norm are corrected by the mean errors of calibration's last
  /// update (bias correction).
  bool correct_bias = false;
  /// Whether batch norms are folded into convolutions, as integer_network_options::fold_batch_norm.
  bool fold_batch_norm = true;

  /// Throws usage_error for meaningless options.
  [[gnu::cold]] void check() const {
    expects(percentile > 50 && percentile <= 100,
            "quantize_network: .percentile is above 50 and at most 100");
    expects(percentile == 100 || !range.has_value(),
            "quantize_network: .percentile and .range are two choices of the same ranges: give "
            "one of them");
  }
};

namespace detail::infer {

struct no_images {};

template <class Run, train::Feed F, class Data>
[[nodiscard]] std::pair<integer_network, quantization_report> quantize(
    Run& run, F& feed, int batches, const quantize_network_options& options, const Data& images) {
  using M = typename Run::model_type;
  static_assert(
      requires { M::input; },
      "quantize_network folds the library's layers, which a model of your own does not have");
  static_assert(!Quantized<typename M::precision>,
                "quantize_network takes a network in floats: one in int8 has ranges, so calibrate "
                "it if it was not trained in int8, and call integer_network::from");
  static_assert(
      std::is_same_v<typename M::device, cpu> &&
          std::is_same_v<typename M::precision::master, float>,
      "quantize_network reads float weights in the host's memory: save those of a GPU, or "
      "of fp64, and load them into a network of fp32 on the CPU");
  constexpr bool reports = !std::is_same_v<Data, no_images>;
  run.abort_peers_on_throw([&] { options.check(); });
  return run.with_mean_model([&] {
    int8_copy<Run> copy(run);
    copy.model().quantization.percentile = options.percentile;
    if (options.equalize_layers) {
      (void)equalize_layers(copy.model(), copy.weights());
      copy.adopt_weights();
    }
    quantization_report report;
    report.layers = options.range.has_value() ? calibrate(copy, feed, batches, options.range)
                                              : calibrate(copy, feed, batches);
    // Before the correction, which moves FP32's outputs, too.
    if constexpr (reports)
      report = quantization_report::from(copy, report.layers, images, feed.normalization());
    if (options.correct_bias) {
      correct_bias(copy, report.layers);
      if constexpr (reports) report.int8 = copy.evaluate(images, feed.normalization());
    }
    return std::pair(integer_network::from<typename int8_copy<Run>::model_type>(
                         {copy.weights().data, copy.weights().size}, feed.normalization(),
                         run.model().get_device(), {.fold_batch_norm = options.fold_batch_norm}),
                     std::move(report));
  });
}

}  // namespace detail::infer

/// Returns the integer network of all ranks' mean model, calibrated on `batches` updates of `feed`.
/// Throws error that names the tensor or layer if a weight, statistic or range is not finite,
/// usage_error for meaningless options. Collective.
template <class Run, detail::train::Feed F>
[[nodiscard]] integer_network quantize_network(Run& run, F& feed, int batches,
                                               const quantize_network_options& options = {}) {
  return detail::infer::quantize(run, feed, batches, options, detail::infer::no_images{}).first;
}

/// Same, and reports what each layer costs on `images`, a labelled data set that is evaluated once
/// per layer and two or three times more: choose a small one. Single layers are evaluated without
/// bias correction, report.int8 with it. Collective.
template <class Run, detail::train::Feed F, Dataset Data>
[[nodiscard]] std::pair<integer_network, quantization_report> quantize_network(
    Run& run, F& feed, int batches, const quantize_network_options& options, const Data& images) {
  return detail::infer::quantize(run, feed, batches, options, images);
}

}  // namespace cordee::inline CORDEE_ABI
