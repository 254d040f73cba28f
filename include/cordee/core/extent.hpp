// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The extent of one image or activation, a compile-time constant of a network.
#pragma once

#include <cstddef>
#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

/// channels x height x width of one sample. A structural type: it may be a template argument.
struct extent {
  /// Channels of a pixel, rows (`height`), columns (`width`).
  int channels = 0, height = 0, width = 0;

  /// Pixels of one channel: height x width.
  [[nodiscard]] constexpr std::size_t pixels() const {
    return static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
  }
  /// Numbers in one sample: channels x height x width.
  [[nodiscard]] constexpr std::size_t size() const {
    return static_cast<std::size_t>(channels) * pixels();
  }
  friend constexpr bool operator==(const extent&, const extent&) = default;
};

/// Returns channels, height and width as "3x32x32".
inline std::string describe(const extent& e) {
  return concat(e.channels, "x", e.height, "x", e.width);
}

}  // namespace cordee::inline CORDEE_ABI
