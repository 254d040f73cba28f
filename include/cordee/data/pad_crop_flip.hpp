// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The usual augmentation for CIFAR: padding, a random crop of the image's size, a horizontal flip.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/random.hpp>
#include <cordee/data/augmentation.hpp>

namespace cordee::inline CORDEE_ABI {

/// Pads an image, crops it at a random position, and flips it.
struct pad_crop_flip {
  /// Zeros added on each side. Unit: pixels. Range: 0 <= pad <= 32768, else usage_error.
  int pad = 0;
  bool flip = false;  ///< Whether to mirror the crop left to right with probability 1/2.

  static constexpr std::uint32_t subsequence = 3;  ///< Its draws in compose.

  [[nodiscard]] bool active() const { return pad != 0 || flip; }  ///< Whether it pads or flips.

  /// See Augmentation. @throws usage_error for a padding out of its range, or buffers that do not
  /// have the image's size.
  void operator()(const extent& e, std::span<const std::uint8_t> in, std::span<std::uint8_t> out,
                  random_sequence random) const {
    expects(pad >= 0 && pad <= 1 << 15, "pad_crop_flip: the padding is not within 0 .. 32768");
    expects(in.size() == e.size() && out.size() == e.size(),
            "pad_crop_flip: the buffers are not of the image's size");
    const auto offsets = static_cast<std::uint32_t>(2 * pad + 1);
    const int down = static_cast<int>(random.below(offsets)) - pad;
    const int right = static_cast<int>(random.below(offsets)) - pad;
    const bool flipped = flip && random.coin();

    std::memset(out.data(), 0, out.size());
    // Columns of the crop inside the image; the others are padding.
    const int first = std::max(0, -right), last = std::min(e.width, e.width - right);
    const auto index = [&](int channel, int row, int column) {
      return (static_cast<std::size_t>(channel) * static_cast<std::size_t>(e.height) +
              static_cast<std::size_t>(row)) *
                 static_cast<std::size_t>(e.width) +
             static_cast<std::size_t>(column);
    };
    for (int c = 0; c < e.channels; ++c)
      for (int y = std::max(0, -down); y < std::min(e.height, e.height - down); ++y)
        if (first < last) {
          const std::uint8_t* const row = in.data() + index(c, y + down, first + right);
          if (std::uint8_t* to = out.data() + index(c, y, e.width - last); flipped)
            for (const std::uint8_t* x = row + (last - first); x != row;) *to++ = *--x;
          else
            std::copy(row, row + (last - first), out.data() + index(c, y, first));
        }
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    if (!active()) return "no augmentation";
    return concat(pad > 0 ? concat("random crop after padding by ", pad) : std::string(),
                  pad > 0 && flip ? ", " : "", flip ? "random horizontal flip" : "");
  }
};
static_assert(Augmentation<pad_crop_flip>);

}  // namespace cordee::inline CORDEE_ABI
