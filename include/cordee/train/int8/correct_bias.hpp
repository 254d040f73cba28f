// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Bias correction (Nagel et al., 2019): removes each filter's mean int8 error after the
// convolution.
//
//   E[y8 - y] from calibrate's last update;  mean <- mean + E[y8 - y]
//
// Convolutions have no bias here; the batch norm behind them subtracts its running mean.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/train/int8/calibrate.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::train {

/// The running mean of the batch norm behind a convolution; null if none follows.
[[gnu::cold]] inline const segment* mean_behind(std::span<const segment> table,
                                                const std::string& layer) {
  const auto find_segment = [&](const std::string& name) -> const segment* {
    for (const segment& s : table)
      if (s.name == name) return &s;
    return nullptr;
  };
  const segment* const weight = find_segment(layer + ".weight");
  if (weight == nullptr || weight + 1 == table.data() + table.size()) return nullptr;
  const segment& next = weight[1];  // the table is in forward order
  if (next.kind != kind::scale || next.size != static_cast<std::size_t>(weight->shape[0]))
    return nullptr;
  return find_segment(std::string(next.name.substr(0, next.name.rfind('.') + 1)) + "running_mean");
}

}  // namespace detail::train

/// Corrects the running means by what calibrate returned, equally on every rank; call once per
/// calibration. Layers not followed by a batch norm are unchanged.
template <class Run>
void correct_bias(Run& run, std::span<const calibrated_layer> calibrated) {
  static_assert(Run::device::host_memory, "correct_bias runs on the CPU, as calibrate does");
  run.abort_peers_on_throw([&] {
    for (const calibrated_layer& layer : calibrated) {
      const segment* const mean = detail::train::mean_behind(run.segments(), layer.name);
      if (mean == nullptr) continue;
      expects(layer.filter_errors.size() == mean->size,
              "correct_bias: the layers are not those that calibrate returned for this network");
      for (std::size_t k = 0; k < mean->size; ++k)
        run.weights()[mean->offset + k] += static_cast<typename Run::Real>(layer.filter_errors[k]);
    }
    run.adopt_weights();
  });
}

}  // namespace cordee::inline CORDEE_ABI
