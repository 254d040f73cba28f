// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Dynamic loss scaling: a factor S on the loss keeps small gradients from underflowing in fp16.
//
//   backward of S loss;  g <- g / S in single precision, before any norm of g is computed
//   a gradient that is not finite:           the step is skipped, S <- max(backoff S, smallest)
//   after `interval` finite steps in a row:  S <- growth S, unless that is infinite
//
// Micikevicius et al. 2018, with the constants of torch.amp.GradScaler
// (docs/mathematics_network.md, 9). With an exact reducer every rank tests the same mean, so S is
// the same on all ranks; otherwise each rank has its own.
#pragma once

#include <cordee/core/config.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/limits.hpp>
#include <cordee/core/math.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::train {

/// Options of dynamic loss scaling; growth = backoff = 1 keeps the initial scale.
struct loss_scaling {
  /// S of the first step. Range: a positive normal number of single precision, else usage_error.
  /// Default: as torch.amp.GradScaler.
  double initial = 65536;
  /// Growth factor: what S is multiplied by after `interval` finite steps. Range: finite, 1 or
  /// more, else usage_error. Default: as torch.amp.GradScaler.
  double growth = 2;
  /// Backoff factor: what S is multiplied by after a gradient that is not finite. Range: 0 <
  /// backoff <= 1, else usage_error. Default: as torch.amp.GradScaler.
  double backoff = 0.5;
  /// Finite steps in a row before S grows. Unit: steps. Range: 1 or more, else usage_error.
  /// Default: as torch.amp.GradScaler.
  int interval = 2000;
  /// Least S. Range: a positive normal number of single precision, at most `initial`, else
  /// usage_error. Default: as Megatron-LM and DeepSpeed: a smaller one makes gradients smaller than
  /// they are without scaling, so what overflows at 1 is not the scaled loss.
  double smallest = 1;

  /// The scale after `value` and a gradient that is not finite.
  [[nodiscard]] CORDEE_HOST_DEVICE float lowered(float value) const {
    const double next = value * backoff, least = smallest < value ? smallest : value;
    return static_cast<float>(next < least ? least : next);
  }
  /// Checks the options. @throws usage_error for one out of its range.
  void check() const {
    using single = core::limits<float>;  // the type of S and of 1/S
    expects(initial >= single::min() && initial <= single::max(),
            "loss_scaling: initial must be a positive normal number of single precision");
    expects(growth >= 1 && core::isfinite(growth), "loss_scaling: growth must be 1 or more");
    expects(backoff > 0 && backoff <= 1, "loss_scaling: backoff must be above 0 and at most 1");
    expects(smallest >= single::min() && smallest <= initial,
            "loss_scaling: smallest must be a positive normal number, at most initial");
    expects(interval > 0, "loss_scaling: interval must be a positive number of steps");
  }
};

/// S, and the number of finite steps in a row since it last changed.
struct loss_scale {
  float value = 1;
  int finite_steps = 0;
  bool operator==(const loss_scale&) const = default;

  [[nodiscard]] static loss_scale first(const loss_scaling& options) {
    options.check();
    return {static_cast<float>(options.initial)};
  }
  /// 1/S, rounded once: the same bits on CPU and GPU.
  [[nodiscard]] CORDEE_HOST_DEVICE float inverse() const {
    return static_cast<float>(1 / static_cast<double>(value));
  }
  CORDEE_HOST_DEVICE void update(const loss_scaling& options, bool finite) {
    finite_steps = finite ? finite_steps + 1 : 0;
    if (!finite) value = options.lowered(value);
    if (finite_steps < options.interval) return;
    const auto grown = static_cast<float>(value * options.growth);
    if (core::isfinite(grown)) value = grown;
    finite_steps = 0;
  }
};

}  // namespace detail::train

}  // namespace cordee::inline CORDEE_ABI
