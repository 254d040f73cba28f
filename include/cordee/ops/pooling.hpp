// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The geometry of ops that change the extent without parameters: subsampling and the max pool.
#pragma once

#include <cordee/core/config.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/min_max.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Whether an average pool over so many pixels, of numbers of so many bytes, can take the end of a
/// residual block in its pass: a bit for the sign of each pixel, and in the memory of one channel's
/// pixels 64 of these and a float.
constexpr bool fits_pooled_signs(std::size_t pixels, std::size_t bytes) {
  return pixels <= 64 && pixels * bytes >= 12;
}

/// The shortcut of CIFAR ResNets (He et al., 2016, option A): every second pixel of `in`, with zero
/// channels added, half of them on each side:
///
///   y[c + (K - C) / 2, i, j] = x[c, 2i, 2j]
struct subsample_problem {
  extent in, out;
  int stride = 2;

  /// The input channel of an output channel; outside 0 .. C-1 the output is zero.
  [[nodiscard]] constexpr int source(int channel) const {
    return channel - (out.channels - in.channels) / 2;
  }
};

/// Square windows; padding is at most half a window, so that each window covers a pixel.
struct max_pool_problem {
  /// An index of a tap fits a byte.
  static constexpr int largest_window = 16;

  extent in;
  int window = 3, stride = 2, padding = 1;

  [[nodiscard]] constexpr extent out() const {
    return {in.channels, (in.height + 2 * padding - window) / stride + 1,
            (in.width + 2 * padding - window) / stride + 1};
  }
  /// The indices first .. last-1.
  struct range {
    int first, last;
  };
  /// The taps of window i that lie inside a side of that length.
  [[nodiscard]] constexpr range taps(int i, int side) const {
    const int start = i * stride - padding;
    return {std::max(0, -start), std::min(window, side - start)};
  }
  /// Moves from the windows, out of `count`, that cover pixel h-1 of a side to those that cover
  /// pixel h; {0, 0} precedes pixel 0. (Computed by division, they took most of backward's time.)
  constexpr void advance(range& covering, int h, int count) const {
    while (covering.last < count && covering.last * stride <= h + padding) ++covering.last;
    while (covering.first * stride + window <= h + padding) ++covering.first;
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
