// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Inverted dropout (Srivastava et al., 2014): y = x / (1 - rate) where a number is kept, 0
// elsewhere.
//
// Whether it is kept is a function of (seed, step, sample, layer, position) by counter-based random
// numbers, so no mask is stored, backward computes it again, and neither ranks nor a resume change
// it. A sample is counted by its position in the update.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cordee/core/config.hpp>
#include <cordee/core/random.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/ops/fast_divisor.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// What the numbers of a pass depend on.
struct dropout_numbers {
  double rate = 0;  // 0: everything is kept
  std::uint64_t seed = 0;
  std::int64_t first_sample = 0;
  const step_info* info = nullptr;  // in the device's memory; null: step 0

  /// The 32 random bits at `position` of a layer, for the sample of this index in the batch. For
  /// layer 0 they are those of random_sequence(seed, purpose::dropout, step, first_sample +
  /// sample).
  [[nodiscard]] CORDEE_HOST_DEVICE std::uint32_t bits(std::uint64_t sample, std::uint32_t layer,
                                                      std::uint32_t position) const {
    const std::uint64_t step = info == nullptr ? 0 : static_cast<std::uint64_t>(info->step),
                        place = static_cast<std::uint64_t>(first_sample) + sample;
    const core::philox_block block =
        core::philox({position / 4 | layer << 24,
                      static_cast<std::uint32_t>(purpose::dropout) << 24 |
                          static_cast<std::uint32_t>(step & 0xffffff),
                      static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(place >> 32)},
                     seed);
    // An index that only the kernel knows would put the block in a GPU's local memory.
    const std::uint32_t low = position % 2 == 0 ? block[0] : block[1],
                        high = position % 2 == 0 ? block[2] : block[3];
    return position % 4 < 2 ? low : high;
  }
};

/// y <- dropout of x, (samples, numbers), fewer than 2^31 in all; x may be y. Applied to dy it
/// gives the gradient.
template <Number N>
struct dropout_op {
  dropout_numbers random;
  std::uint32_t layer;
  fast_divisor numbers;
  const N* x;
  N* y;

  CORDEE_HOST_DEVICE void operator()(std::size_t i) const {
    using Real = precision::wide<N>;
    const int at = static_cast<int>(i), sample = numbers.quotient(at);
    const double uniform = random.bits(static_cast<std::uint64_t>(sample), layer,
                                       static_cast<std::uint32_t>(at - sample * numbers.divisor));
    const auto kept =
        static_cast<Real>(static_cast<double>(precision::widened(x[i])) / (1 - random.rate));
    y[i] = precision::rounded<N>(uniform < random.rate * 0x1p32 ? Real{} : kept);
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
