// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch norm by its running statistics, folded into the layer before it (Jacob et al., 2018).
//
//   f = gamma / sqrt(variance + epsilon);  W' = W f,  b' = (b - mean) f + beta
//
// for each output channel. Fold before scales are fitted: it is W' whose range counts.
#pragma once

#include <cmath>
#include <cstddef>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

/// The weights (K, per_filter) in place, and the bias: zero where the layer had none.
template <class Real>
void fold_batch_norm(std::size_t filters, std::size_t per_filter, const Real* gamma,
                     const Real* beta, const Real* mean, const Real* variance, Real epsilon,
                     Real* weights, Real* bias) {
  for (std::size_t k = 0; k < filters; ++k) {
    const Real factor = gamma[k] / std::sqrt(variance[k] + epsilon);
    for (std::size_t i = 0; i < per_filter; ++i) weights[k * per_filter + i] *= factor;
    bias[k] = (bias[k] - mean[k]) * factor + beta[k];
  }
}

}  // namespace cordee::inline CORDEE_ABI
