// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How many images a call of a network on integers has.
#pragma once

#include <cstddef>
#include <string_view>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// Number of images in spans of `pixels` and `logits` numbers, for a network named `network` whose
/// images are `image`, with a logit for each of its classes. Throws usage_error that names both
/// counts if an image is incomplete or has other than `classes` logits. Spans have no shape: pixels
/// of images of another shape, 14 x 56 for 28 x 28, are not recognized.
[[nodiscard]] inline std::size_t count_images(std::string_view network, std::size_t pixels,
                                              const extent& image, std::size_t logits,
                                              std::size_t classes) {
  const std::size_t count = pixels / image.size();
  if (pixels != count * image.size())
    throw usage_error(concat(network, ": ", pixels, " bytes are not whole images of ",
                             describe(image), ", ", image.size(), " bytes each"));
  if (logits != count * classes)
    throw usage_error(concat(network, ": ", logits, " logits for ", count, " of its images, ",
                             classes, " for each"));
  return count;
}

}  // namespace cordee::inline CORDEE_ABI::detail::infer
