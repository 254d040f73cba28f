// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One cycle: up to the peak, down to a last learning rate far below the first (Smith and Topin
// 2017), with the phases of PyTorch's OneCycleLR.
//
//   from peak/start_divisor   to peak                  during rise E - u epochs,
//   then                      to peak/start_divisor/end_divisor   at epoch E - u,
//
// each along half a cosine, or a line. With three phases the second returns to the first learning
// rate in as many epochs as the first, less u, and the third falls to the last.
//
// u is `update`: PyTorch's phases end one update early, so that the last update has the last
// learning rate. Momentum is not cycled (PyTorch's cycle_momentum = False).
#pragma once

#include <numbers>

#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

/// One cycle from a low learning rate up to the peak and down to a much lower one.
struct one_cycle {
  /// Largest learning rate. Range: finite, 0 or more, else usage_error.
  double peak = 0.1;
  /// Length of the run; required. Unit: epochs. Range: finite, above 0, else usage_error.
  double epochs = 0;
  /// Fraction of the epochs during which the learning rate rises (pct_start). Range: 0 <= rise <= 1
  /// (0.5 with three phases), else usage_error. Default: as PyTorch.
  double rise = 0.3;
  /// Peak / first learning rate (div_factor). Range: finite, above 0, else usage_error. Default: as
  /// PyTorch.
  double start_divisor = 25;
  /// First / last learning rate (final_div_factor). Range: finite, above 0, else usage_error.
  /// Default: as PyTorch.
  double end_divisor = 1e4;
  bool linear = false;  ///< Whether the phases are linear instead of cosines.
  /// Whether the second phase returns to the first learning rate, and a third falls to the last.
  bool three_phase = false;
  /// Length of one update (1 / updates per epoch) for PyTorch's exact numbers; 0: their limit for
  /// many updates. Unit: epochs. Range: 0 <= update < epochs, else usage_error.
  double update = 0;

  /// The last learning rate from `epochs` - `update` on.
  double operator()(double epoch) const {
    detail::schedule::expect_not_negative("one_cycle", {".peak", peak});
    detail::schedule::expect_finite("one_cycle", {{".epochs", epochs},
                                                  {".rise", rise},
                                                  {".start_divisor", start_divisor},
                                                  {".end_divisor", end_divisor},
                                                  {".update", update}});
    expects(epochs > 0, "one_cycle: set .epochs, the length of the run");
    expects(rise >= 0 && rise <= (three_phase ? 0.5 : 1),
            "one_cycle: .rise must be from 0 to 1, with three phases to 0.5");
    expects(start_divisor > 0 && end_divisor > 0, "one_cycle: the divisors must be positive");
    expects(update >= 0 && update < epochs, "one_cycle: .update must be from 0 to below .epochs");
    const double first = peak / start_divisor, last = first / end_divisor;
    const double top = rise * epochs - update, end = epochs - update;
    if (epoch <= top) return between(first, peak, epoch, 0, top);
    if (!three_phase) return between(peak, last, epoch, top, end);
    const double back = 2 * rise * epochs - 2 * update;
    return epoch <= back ? between(peak, first, epoch, top, back)
                         : between(first, last, epoch, back, end);
  }
  /// `epochs`.
  [[nodiscard]] double end_epoch() const { return epochs; }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("one cycle over ", epochs, " epochs: ", linear ? "linear" : "cosine", " from ",
                  peak / start_divisor, " to ", peak, " in the first ", rise * epochs,
                  three_phase ? concat(", back in as many") : "", ", then to ",
                  peak / start_divisor / end_divisor);
  }

 private:
  // From a at epoch `begin` to b at `end`, and b afterwards.
  [[nodiscard]] double between(double a, double b, double epoch, double begin, double end) const {
    if (epoch >= end) return b;
    const double x = epoch > begin ? (epoch - begin) / (end - begin) : 0;
    return linear ? a + (b - a) * x
                  : b + (a - b) * (1 + detail::core::cos(std::numbers::pi * x)) / 2;
  }
};

}  // namespace cordee::inline CORDEE_ABI
