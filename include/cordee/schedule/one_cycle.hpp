// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One cycle: up to the peak, down to a last learning rate far below the first (Smith and Topin
// 2017), with the phases of PyTorch's OneCycleLR.
//
//   from peak/start_divisor   to peak                  during rise E - u epochs,
//   then                      to peak/start_divisor/end_divisor   at epoch E - u,
//
// each by half a cosine, or a line. With three phases the second one leads back to the first
// learning rate in as many epochs as the first, less u, and a third one to the last.
//
// u is the number of epochs of one update, for PyTorch's phases end one update early, so that its
// last update has the last learning rate: .update = 1 / updates of an epoch gives its numbers; 0 is
// their limit for many updates. The momentum is not cycled (PyTorch's cycle_momentum = False).
#pragma once

#include <cmath>
#include <numbers>

#include <cordee/core/error.hpp>
#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

struct one_cycle {
  double peak = 0.1;
  double epochs = 0;  // required: the length of the run
  double rise = 0.3;  // the first phase's share of the epochs (pct_start)
  double start_divisor = 25, end_divisor = 1e4;
  bool linear = false;       // lines in place of cosines
  bool three_phase = false;  // back to the first learning rate before the last phase
  double update = 0;         // epochs of one update

  double operator()(double epoch) const {
    detail::schedule::expect_finite("one_cycle", {{".peak", peak},
                                                  {".epochs", epochs},
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
  [[nodiscard]] double end_epoch() const { return epochs; }
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
    return linear ? a + (b - a) * x : b + (a - b) * (1 + std::cos(std::numbers::pi * x)) / 2;
  }
};

}  // namespace cordee::inline CORDEE_ABI
