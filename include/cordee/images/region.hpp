// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Sizes of images and rectangles in them, in pixels.
#pragma once

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

/// Size of an image, which differs from file to file.
struct image_size {
  int width = 0, height = 0;  ///< Pixels in each dimension.

  friend bool operator==(const image_size&, const image_size&) = default;
};

/// Columns left .. left + width - 1 of rows top .. top + height - 1.
struct region {
  int left = 0, top = 0, width = 0, height = 0;  ///< Pixels; the corner of the image is (0, 0).

  friend bool operator==(const region&, const region&) = default;
};

namespace detail::images {

/// Whether `r` has pixels and lies in an image of size `s`. No sum overflows.
[[nodiscard]] constexpr bool lies_in(const region& r, const image_size& s) {
  return r.left >= 0 && r.top >= 0 && r.width > 0 && r.height > 0 && r.width <= s.width &&
         r.height <= s.height && r.left <= s.width - r.width && r.top <= s.height - r.height;
}

/// The size of an image that is reduced by 1/scale while it is decoded: sides are rounded up.
[[nodiscard]] constexpr image_size reduced(const image_size& s, int scale) {
  const auto side = [scale](int n) { return n / scale + (n % scale != 0 ? 1 : 0); };
  return {side(s.width), side(s.height)};
}

}  // namespace detail::images

}  // namespace cordee::inline CORDEE_ABI
