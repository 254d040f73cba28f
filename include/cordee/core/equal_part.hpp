// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A part of work that is divided in advance.
#pragma once

#include <cstddef>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::core {

/// One of `count` contiguous parts of some work, whose lengths differ by at most one unit. By
/// default all of it.
struct equal_part {
  std::size_t index = 0, count = 1;

  /// This part is units first(n) .. last(n)-1 of 0 .. n-1, possibly none.
  [[nodiscard]] constexpr std::size_t first(std::size_t n) const { return n * index / count; }
  [[nodiscard]] constexpr std::size_t last(std::size_t n) const { return n * (index + 1) / count; }
};

}  // namespace cordee::inline CORDEE_ABI::detail::core
