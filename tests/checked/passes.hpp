// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the passes that are measured share: a device and its tensors.
#pragma once

#include <cstddef>
#include <vector>

#include <cordee/ops/gpu/chunk_merge.hpp>
#include <cordee/ops/loss.hpp>

#include "tests/checked/measure.hpp"
#include "tests/support/device_fixture.hpp"
#include "tests/support/emulated.hpp"

namespace checked {

inline const support::device_fixture at{support::emulated{1}};

/// n numbers x.
template <class T>
cordee::buffer<T, support::emulated> filled(std::size_t n, double x = 1) {
  if constexpr (cordee::Number<T>)
    return at.put(std::vector<T>(n, support::nearest<T>(x)));
  else
    return at.put(std::vector<T>(n, static_cast<T>(x)));
}

/// The entries of a merge of chunks, two doubles of each chunk and each set: a pass writes them and
/// reads them. It writes mean and variance of each channel in double and its coefficients, or
/// two sums in double and two coefficients.
inline std::size_t entry_bytes(const cordee::detail::ops::chunk_merge& chunks) {
  return sizeof(double) * chunks.numbers();
}
inline constexpr std::size_t moments_written = 2 * sizeof(double) + 3 * sizeof(float),
                             sums_written = 2 * sizeof(double) + 2 * sizeof(float);

/// A loss of so many bytes of logits, which it sweeps, and of its gradient, if any; a sample has a
/// label, a loss and a rank, which the second launch reads.
inline std::vector<formula> loss_formulas(std::size_t samples, std::size_t logits,
                                          std::size_t gradient, int sweeps) {
  const std::size_t labels = 4 * samples, metrics = 12 * samples;
  return {{logits + labels, gradient + metrics, static_cast<std::size_t>(sweeps) * logits + labels},
          {labels + metrics, sizeof(cordee::detail::ops::metric_sums)}};
}

/// The passes of batch norm (batch_norm_passes.cpp).
void measure_batch_norms(table& rows);
/// The passes of reducers, losses, calibration and optimizers (further_passes.cpp).
void measure_further_passes(table& rows);
/// And those of layers that are no network's main ones (layer_passes.cpp).
void measure_layer_passes(table& rows);

}  // namespace checked
