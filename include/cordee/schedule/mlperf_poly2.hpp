// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The schedule of MLPerf's ResNet-50 reference with LARS: a linear warm-up from 0, then a square.
//
//   lr(e) = peak e/W                              for e <= W,  then
//   lr(e) = end + (peak - end) (1 - (e - W)/D)^2    D = E - W + u
//
// u is the number of epochs of one update: the reference decays over one update more than the run
// has, so that its last update is still above `end`. .update = 1 / updates of an epoch gives its
// numbers; 0 is their limit for many updates.
#pragma once

#include <algorithm>

#include <cordee/core/error.hpp>
#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI {

struct mlperf_poly2 {
  double peak = 0.1;
  double warmup_epochs = 0;
  double epochs = 0;  // required: the length of the run, warm-up included
  double end = 1e-4;
  double update = 0;  // epochs of one update

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
    expects(update >= 0, "mlperf_poly2: .update must not be negative");
    if (epoch < warmup_epochs) return peak * epoch / warmup_epochs;
    const double left = 1 - (epoch - warmup_epochs) / (epochs - warmup_epochs + update);
    return end + (peak - end) * std::max(left, 0.0) * std::max(left, 0.0);
  }
  [[nodiscard]] double end_epoch() const { return epochs + update; }
  [[nodiscard]] std::string describe() const {
    return concat("MLPerf's poly2: warm-up over ", warmup_epochs, " epochs to ", peak,
                  ", then a square to ", end, " at epoch ", end_epoch());
  }
};

}  // namespace cordee::inline CORDEE_ABI
