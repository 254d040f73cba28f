// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The cost of int8, layer by layer: the accuracy and loss of a calibrated network with all layers
// in int8, with none, and with one at a time.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/decimal.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/train/int8/calibrate.hpp>
#include <cordee/train/measure/evaluate.hpp>

namespace cordee::inline CORDEE_ABI {

/// Loss of accuracy through int8, by layer.
struct quantization_report {
  std::vector<calibrated_layer> layers;  ///< What calibrate returned.
  metrics fp32, int8;                    ///< Metrics with no layer in int8, and with all of them.
  std::vector<metrics> single;           ///< Metrics with only one layer in int8, for each layer.

  /// Index of the layer that alone adds most to the loss; 0 without layers.
  [[nodiscard]] std::size_t costliest() const {
    const auto most = std::max_element(
        single.begin(), single.end(),
        [](const metrics& a, const metrics& b) { return a.mean_loss() < b.mean_loss(); });
    return static_cast<std::size_t>(most - single.begin());
  }

  /// Evaluates the network once per layer and twice more. `calibrated` is what calibrate returned;
  /// correct biases only afterwards, since otherwise fp32 is not the trained network. Collective.
  /// @throws usage_error for another number of layers; else as run_operations::evaluate.
  template <class Run, Dataset Data>
  [[nodiscard]] static quantization_report from(Run& run,
                                                std::span<const calibrated_layer> calibrated,
                                                const Data& data, const normalization& norm,
                                                int batch_size = 250);
};

template <class Run, Dataset Data>
quantization_report quantization_report::from(Run& run,
                                              std::span<const calibrated_layer> calibrated,
                                              const Data& data, const normalization& norm,
                                              int batch_size) {
  using mode = detail::nn::quantization_observer::run_mode;
  static_assert(Run::device::host_memory,
                "quantization_report runs layers in FP32, which an int8 network does on the CPU");
  detail::nn::quantization_observer& observer = run.model().quantization.observer;
  run.abort_peers_on_throw([&] {
    expects(
        calibrated.size() == observer.layers.size(),
        "quantization_report: the layers are not those that calibrate returned for this network");
  });
  quantization_report report{{calibrated.begin(), calibrated.end()}, {}, {}, {}};
  report.int8 = run.evaluate(data, norm, batch_size);
  const detail::train::quantized_mode_guard guard{observer};
  observer.mode = mode::single;
  for (std::size_t k = 0; k <= observer.layers.size(); ++k) {
    observer.single_layer = k;
    report.single.push_back(run.evaluate(data, norm, batch_size));
  }
  report.fp32 = report.single.back();  // no layer has the index behind the last
  report.single.pop_back();
  return report;
}

/// A table of the layers, and a sentence about the costliest.
[[gnu::cold]] inline std::string describe(const quantization_report& r) {
  const auto aligned = [](const std::string& text, std::size_t columns) {
    return std::string(columns - std::min(columns, text.size()), ' ') + text;
  };
  const auto change = [](double x, int digits) {
    return decimal::with_sign(decimal::fixed(x, digits));
  };
  std::string out = concat(
      "accuracy ", decimal::fixed(100 * r.fp32.accuracy(), 2), " % in fp32, ",
      decimal::fixed(100 * r.int8.accuracy(), 2), " % in int8; loss ",
      decimal::fixed(r.fp32.mean_loss(), 4), ", ", decimal::fixed(r.int8.mean_loss(), 4),
      "\nsignal to noise and clipped inputs of each layer; the loss it adds alone in int8\n");
  std::size_t width = 0;
  for (const calibrated_layer& layer : r.layers) width = std::max(width, layer.name.size());
  for (std::size_t k = 0; k < r.layers.size(); ++k) {
    const calibrated_layer& layer = r.layers[k];
    // SQNR: 10 log10(|y|^2 / |y8 - y|^2)
    const std::string noise =
        layer.error > 0
            ? aligned(decimal::fixed(-20 * detail::core::log10(layer.error), 1), 6) + " dB"
            : "    exact";
    out += concat("  ", layer.name, std::string(width - layer.name.size(), ' '), noise,
                  aligned(decimal::fixed(100 * layer.saturation, 4), 9), " %",
                  aligned(change(r.single[k].mean_loss() - r.fp32.mean_loss(), 5), 11), "\n");
  }
  if (r.single.empty()) return out;
  const std::size_t k = r.costliest();
  return out + concat(r.layers[k].name, " costs most: alone in int8 it changes the loss by ",
                      change(r.single[k].mean_loss() - r.fp32.mean_loss(), 5),
                      " and the accuracy by ",
                      change(100 * (r.single[k].accuracy() - r.fp32.accuracy()), 2), " points\n");
}

}  // namespace cordee::inline CORDEE_ABI
