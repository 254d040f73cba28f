// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Who comes when: one permutation of the data set for each epoch.
#pragma once

#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/random.hpp>

namespace cordee::inline CORDEE_ABI {

/// A uniform permutation of 0 .. size-1 that is a function of (seed, epoch, size) alone (Fisher and
/// Yates).
inline std::vector<std::uint32_t> order(std::uint64_t seed, std::int64_t epoch, std::size_t size) {
  expects(size <= std::numeric_limits<std::uint32_t>::max(),
          "order: more samples than 32 bits count");
  std::vector<std::uint32_t> places(size);
  std::iota(places.begin(), places.end(), 0u);
  random_sequence random(seed, purpose::order, static_cast<std::uint64_t>(epoch), 0);
  for (std::size_t left = size; left > 1; --left)
    std::swap(places[left - 1], places[random.below(static_cast<std::uint32_t>(left))]);
  return places;
}

}  // namespace cordee::inline CORDEE_ABI
