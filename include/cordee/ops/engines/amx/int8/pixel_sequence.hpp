// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The output's pixels in the sequence of which tiles take 16: rows lie a pitch apart, and what is
// between them is summed and dropped; where the pitch is the width, samples follow without gaps.
#pragma once

#include <cstddef>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

struct pixel_sequence {
  std::ptrdiff_t width, pitch, first_row, rows;
  std::ptrdiff_t samples;  // in the sequence; more than one only without gaps

  /// To the last pixel.
  [[nodiscard]] std::ptrdiff_t size() const { return samples * rows * pitch - (pitch - width); }

  /// Calls f(sample, its pixel, place in the sequence, count) for each run of adjacent pixels of a
  /// sample at the places first .. last-1.
  template <class F>
  void for_each_run(std::ptrdiff_t first, std::ptrdiff_t last, const F& f) const {
    const bool gaps = pitch != width;
    const std::ptrdiff_t run = gaps ? width : rows * width, step = gaps ? pitch : run;
    for (std::ptrdiff_t p = first; p < last;) {
      const std::ptrdiff_t i = p / step, j = p % step, next = std::min((i + 1) * step, last);
      if (j < run)
        f(static_cast<std::size_t>(gaps ? 0 : i),
          static_cast<std::size_t>((first_row + (gaps ? i : 0)) * width + j), p,
          static_cast<std::size_t>(std::min(next, i * step + run) - p));
      p = next;
    }
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
