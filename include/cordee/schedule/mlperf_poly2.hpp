// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The schedule of MLPerf's ResNet-50 reference with LARS: linear warm-up from 0, then quadratic
// decay.
//
//   lr(e) = peak e/W                              for e <= W,  then
//   lr(e) = end + (peak - end) (1 - (e - W)/D)^2    D = E - W + u
//
// u is `update`: the reference decays over one update more than the run has, so the last update is
// still above `end`.
#pragma once

#include <cordee/core/algorithm.hpp>
#include <cordee/core/error.hpp>
#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

/// Linear warm-up from 0, then quadratic decay.
struct mlperf_poly2 {
  /// Learning rate at the end of the warm-up. Range: finite, 0 or more, else usage_error.
  double peak = 0.1;
  /// Length W of the warm-up. Unit: epochs. Range: 0 <= warmup_epochs < epochs, else usage_error.
  double warmup_epochs = 0;
  /// Length E of the run, warm-up included; required. Unit: epochs. Range: finite, above 0, else
  /// usage_error.
  double epochs = 0;
  /// Learning rate at the end of the decay. Range: finite, 0 or more, else usage_error. Default: as
  /// the reference.
  double end = 1e-4;
  /// Length of one update (1 / updates per epoch) for the exact numbers of the reference; 0: their
  /// limit for many updates. Unit: epochs. Range: 0 <= update < epochs, else usage_error.
  double update = 0;

  /// `end` from end_epoch() on.
  double operator()(double epoch) const {
    detail::schedule::expect_finite("mlperf_poly2", {{".peak", peak},
                                                     {".warmup_epochs", warmup_epochs},
                                                     {".epochs", epochs},
                                                     {".end", end},
                                                     {".update", update}});
    expects(epochs > 0, "mlperf_poly2: set .epochs, the length of the run");
    expects(warmup_epochs >= 0 && warmup_epochs < epochs,
            "mlperf_poly2: .warmup_epochs must be from 0 to below .epochs");
    expects(peak >= 0 && end >= 0, "mlperf_poly2: .peak and .end must be 0 or more");
    expects(update >= 0 && update < epochs,
            "mlperf_poly2: .update must be from 0 to below .epochs");
    if (epoch < warmup_epochs) return peak * epoch / warmup_epochs;
    const double left = 1 - (epoch - warmup_epochs) / (epochs - warmup_epochs + update);
    return end + (peak - end) * std::max(left, 0.0) * std::max(left, 0.0);
  }
  /// `epochs` + `update`.
  [[nodiscard]] double end_epoch() const { return epochs + update; }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("MLPerf's poly2: warm-up over ", warmup_epochs, " epochs to ", peak,
                  ", then a square to ", end, " at epoch ", end_epoch());
  }
};

}  // namespace cordee::inline CORDEE_ABI
