// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Folds a batch norm with running statistics into the layer before it (Jacob et al., 2018).
//
//   f = gamma / sqrt(variance + epsilon);  W' = W f,  b' = (b - mean) f + beta
//
// for each output channel. Fold before weights are quantised: the scales must fit the range of W'.
#pragma once

#include <cmath>
#include <cstddef>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Folds in place. A layer without a bias passes zeros.
template <class Real>
void fold_batch_norm(std::size_t filters, std::size_t weights_per_filter,
                     const Real* gamma,     // (filters)
                     const Real* beta,      // (filters)
                     const Real* mean,      // (filters)
                     const Real* variance,  // (filters)
                     Real epsilon,
                     Real* weights,  // (filters, weights_per_filter)
                     Real* bias) {   // (filters)
  for (std::size_t k = 0; k < filters; ++k) {
    const Real factor = gamma[k] / std::sqrt(variance[k] + epsilon);
    for (std::size_t i = 0; i < weights_per_filter; ++i)
      weights[k * weights_per_filter + i] *= factor;
    bias[k] = (bias[k] - mean[k]) * factor + beta[k];
  }
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
