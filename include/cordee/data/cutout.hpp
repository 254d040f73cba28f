// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Fills a square of an image. Its center is drawn uniformly from all pixels, so part of it may lie
// outside (DeVries and Taylor 2017, arXiv:1708.04552).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/random.hpp>
#include <cordee/data/augmentation.hpp>

namespace cordee::inline CORDEE_ABI {

/// Fills a random square. In each dimension it covers `size` pixels from c - size / 2 on, where c
/// is its center. The paper fills with what normalization maps to 0: `fill` is then 255 times the
/// mean, rounded.
struct cutout {
  /// Side of the square; 0: inactive. Unit: pixels. Range: 0 <= size <= 32768, else usage_error.
  int size = 16;
  std::array<std::uint8_t, 4> fill{};  ///< Value of the square in each channel.

  static constexpr std::uint32_t subsequence = 2;  ///< Its draws in compose.

  [[nodiscard]] bool active() const { return size != 0; }  ///< Whether `size` is not 0.

  /// See Augmentation. @throws usage_error for a size out of its range, more than 4 channels, or
  /// buffers that do not have the image's size.
  void operator()(const extent& e, std::span<const std::uint8_t> in, std::span<std::uint8_t> out,
                  random_sequence random) const {
    expects(size >= 0 && size <= 1 << 15, "cutout: the size is within 0 .. 32768");
    expects(e.channels <= 4, "cutout: images have at most 4 channels");
    expects(in.size() == e.size() && out.size() == e.size(),
            "cutout: the buffers are not of the image's size");
    const int center_y = static_cast<int>(random.below(static_cast<std::uint32_t>(e.height)));
    const int center_x = static_cast<int>(random.below(static_cast<std::uint32_t>(e.width)));
    const int top = center_y - size / 2, left = center_x - size / 2;
    const int first = std::max(0, left), last = std::min(e.width, left + size);

    std::copy(in.begin(), in.end(), out.begin());
    for (int c = 0; c < e.channels; ++c)
      for (int y = std::max(0, top); y < std::min(e.height, top + size); ++y) {
        const auto row = (static_cast<std::size_t>(c) * static_cast<std::size_t>(e.height) +
                          static_cast<std::size_t>(y)) *
                         static_cast<std::size_t>(e.width);
        if (first < last)
          std::fill_n(out.data() + row + static_cast<std::size_t>(first), last - first,
                      fill[static_cast<std::size_t>(c)]);
      }
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const { return concat("cutout of ", size, " x ", size); }
};
static_assert(Augmentation<cutout>);

}  // namespace cordee::inline CORDEE_ABI
