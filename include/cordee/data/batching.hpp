// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How samples make updates, and updates make epochs: N samples, B of them an update.
//
//   drop  floor(N / B) an epoch    pad  ceil(N / B) an epoch    carry  ceil(E N / B) in E epochs
//
// The record runs of the literature count their steps in the second or the third way.
#pragma once

#include <cmath>
#include <cstdint>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

/// What becomes of the end of an epoch when the batch does not divide the data set.
///   drop   the last few samples of the permutation are left out, each epoch others
///   pad    the last batch is filled up from the start of the same permutation
///   carry  batches run on into the next epoch: no sample is left out, none comes twice
/// An enum, where this library has types for choices: it selects arithmetic on three numbers, no
/// code, and as a member it leaves `batching` a plain struct that can be braced with designators.
enum class tail { drop, pad, carry };

/// How samples make updates. Exactly one of `global_batch` and `per_rank` (samples of one
/// micro-batch on one rank) is given: global batch = per rank x ranks x accumulate.
struct batching {
  std::int64_t global_batch = 0, per_rank = 0;
  int accumulate = 1;
  std::uint64_t seed = 0;
  // The default: every sample counts once an epoch, every update the same number of samples.
  cordee::tail tail = cordee::tail::carry;
};

/// The arithmetic of updates and epochs, apart from any data.
struct batch_plan {
  std::int64_t samples = 0, global_batch = 0;
  cordee::tail tail = cordee::tail::carry;

  /// A sample: its epoch, and its place in that epoch's permutation.
  struct place {
    std::int64_t epoch, index;
  };

  /// For drop and pad, where an epoch is a whole number of updates.
  [[nodiscard]] std::int64_t steps_per_epoch() const {
    return tail == tail::drop ? samples / global_batch
                              : (samples + global_batch - 1) / global_batch;
  }
  /// Updates that make so many epochs; a fraction of an update counts as one.
  [[nodiscard]] std::int64_t steps(double epochs) const {
    const double exact = tail == tail::carry ? epochs * static_cast<double>(samples) /
                                                   static_cast<double>(global_batch)
                                             : epochs * static_cast<double>(steps_per_epoch());
    // 0.1 of 30 updates are 3, not 4 because 0.1 is a little more than a tenth.
    return static_cast<std::int64_t>(std::ceil(exact * (1 - 1e-12)));
  }
  /// Epochs of data seen before update `step`.
  [[nodiscard]] double epoch(std::int64_t step) const {
    return tail == tail::carry
               ? static_cast<double>(step * global_batch) / static_cast<double>(samples)
               : static_cast<double>(step) / static_cast<double>(steps_per_epoch());
  }
  /// Sample j of update `step`.
  [[nodiscard]] place at(std::int64_t step, std::int64_t j) const {
    if (tail == tail::carry) {
      const std::int64_t g = step * global_batch + j;
      return {g / samples, g % samples};
    }
    const std::int64_t n = steps_per_epoch();
    return {step / n, (step % n * global_batch + j) % samples};
  }
};

}  // namespace cordee::inline CORDEE_ABI
