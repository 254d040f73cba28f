// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What an image may cost that is decoded in several passes over all of its pixels: a progressive
// JPEG, an interlaced PNG. Such a file of less than a megabyte could otherwise take minutes.
#pragma once

#include <cstdint>

#include <cordee/core/config.hpp>
#include <cordee/images/region.hpp>

namespace cordee::inline CORDEE_ABI::detail::images {

/// Whether passes x pixels are at most three times the decoder's limit of pixels: of the default,
/// 179 million, ten scans of a progressive JPEG of 53 million pixels.
constexpr bool passes_fit(const image_size& size, unsigned passes, std::uint64_t most_pixels) {
  const auto pixels =
      static_cast<std::uint64_t>(size.width) * static_cast<std::uint64_t>(size.height);
  return (passes * pixels + 2) / 3 <= most_pixels;
}

inline constexpr const char* too_many_passes =
    "its scans or passes, times its pixels, exceed three times the decoder's limit of pixels: save "
    "it without progression or interlacing, shrink it, or raise the limit";

}  // namespace cordee::inline CORDEE_ABI::detail::images
