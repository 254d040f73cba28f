// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Stragglers in simulated steps: the factor by which a rank's computation of a step is slower.
//
//   struct my_stragglers {
//     operator()(rank, step)   -> double   the factor
//     check()                              optional: throws usage_error for an invalid option;
//   };                                     simulate_steps calls it
#pragma once

#include <cmath>
#include <cstdint>

#include <cordee/core/option_range.hpp>
#include <cordee/core/random.hpp>

namespace cordee::inline CORDEE_ABI {

/// None: all ranks compute at their own rate.
struct no_stragglers {
  /// 1: no rank is slower.
  double operator()(int, std::int64_t) const { return 1; }
};
/// The last ranks are slower in all steps.
struct constant_stragglers {
  int from_rank = 0;  ///< The first slow rank.
  /// Factor by which they are slower. Range: finite, 0 or more, else usage_error.
  double factor = 3;
  /// Slow-down factor of this rank in this step.
  double operator()(int rank, std::int64_t) const { return rank >= from_rank ? factor : 1; }
  /// @throws usage_error for an option outside its range.
  void check() const {
    detail::core::expects_not_negative("constant_stragglers", "factor", factor);
  }
};
/// Slow-down factor 1 + mean * E, where E has the exponential distribution of mean 1.
struct exponential_stragglers {
  /// Mean of the part beyond 1. Range: finite, 0 or more, else usage_error.
  double mean = 0.1;
  std::uint64_t seed = 1;  ///< Selects the factors. Range: any.
  /// Slow-down factor of this rank in this step.
  double operator()(int rank, std::int64_t step) const {
    random_sequence random(seed, purpose::synthetic, static_cast<std::uint64_t>(step),
                           static_cast<std::uint64_t>(rank));
    return 1 - mean * std::log1p(-random.uniform());
  }
  /// @throws usage_error for an option outside its range.
  void check() const { detail::core::expects_not_negative("exponential_stragglers", "mean", mean); }
};
/// Slow-down factors of Pareto's distribution: P(factor > x) = x^-shape, with mean shape / (shape -
/// 1).
struct heavy_tailed_stragglers {
  /// Exponent of the tail; up to 1 the mean is infinite. Range: finite, above 0, else
  /// usage_error.
  double shape = 3;
  std::uint64_t seed = 1;  ///< Selects the factors. Range: any.
  /// Slow-down factor of this rank in this step.
  double operator()(int rank, std::int64_t step) const {
    random_sequence random(seed, purpose::synthetic, static_cast<std::uint64_t>(step),
                           static_cast<std::uint64_t>(rank));
    return std::pow(1 - random.uniform(), -1 / shape);
  }
  /// @throws usage_error for an option outside its range.
  void check() const { detail::core::expects_positive("heavy_tailed_stragglers", "shape", shape); }
};

}  // namespace cordee::inline CORDEE_ABI
