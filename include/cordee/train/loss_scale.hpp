// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Dynamic loss scaling: gradients that half precision would lose are kept by a factor on the loss.
//
//   backward of S loss;  g <- g / S in single precision, before anybody looks at g
//   a gradient that is not finite: the step is skipped, S <- backoff S
//   after `interval` finite steps in a row: S <- growth S, unless that is infinite
//
// Micikevicius et al. 2018, with the constants of torch.amp. A rule that needs an exact mean sees
// the same gradient on every rank, so every rank's S is the same; elsewhere each rank has its own.
#pragma once

#include <cmath>
#include <limits>

#include <cordee/core/config.hpp>
#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI {

/// growth = backoff = 1 keeps the first scale.
struct loss_scaling {
  double initial = 65536;
  double growth = 2;
  double backoff = 0.5;
  int interval = 2000;

  void check() const {
    using single = std::numeric_limits<float>;  // which the scale is, and its inverse
    expects(initial >= single::min() && initial <= single::max(),
            "loss_scaling: initial must be a positive normal number of single precision");
    expects(growth >= 1 && std::isfinite(growth), "loss_scaling: growth must be 1 or more");
    expects(backoff > 0 && backoff <= 1, "loss_scaling: backoff must be above 0 and at most 1");
    expects(interval > 0, "loss_scaling: interval must be a positive number of steps");
  }
};

/// The scale of one rank, and how many finite steps in a row it has seen.
struct loss_scale {
  float value = 1;
  int seen = 0;

  [[nodiscard]] static loss_scale first(const loss_scaling& by) {
    by.check();
    return {static_cast<float>(by.initial)};
  }
  /// What gradients are multiplied by; rounded once, as everybody's.
  [[nodiscard]] CORDEE_HOST_DEVICE float inverse() const {
    return static_cast<float>(1 / static_cast<double>(value));
  }
  CORDEE_HOST_DEVICE void update(const loss_scaling& by, bool finite) {
    seen = finite ? seen + 1 : 0;
    if (!finite) value = static_cast<float>(value * by.backoff);
    if (seen < by.interval) return;
    const auto grown = static_cast<float>(value * by.growth);
    if (std::isfinite(grown)) value = grown;
    seen = 0;
  }
};

}  // namespace cordee::inline CORDEE_ABI
