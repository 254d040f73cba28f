// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which pixels of an image become a sample, determined from the image's size before it is decoded.
//
// The arithmetic and its rounding are torchvision's (RandomResizedCrop; Resize, CenterCrop).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>

#include <cordee/core/error.hpp>
#include <cordee/core/random.hpp>
#include <cordee/images/region.hpp>

namespace cordee::inline CORDEE_ABI {

/// How one sample is cut out of one image.
struct resampling_plan {
  region source;       ///< Part of the image that is resized.
  image_size resized;  ///< Its size afterwards.
  region window;       ///< Part of the resized image that is kept.

  friend bool operator==(const resampling_plan&, const resampling_plan&) = default;
};

/// output() is the size of every window. A plan depends only on the image's size and `random`;
/// deterministic resamplings ignore `random`.
template <class R>
concept Resampling =
    std::copyable<R> && requires(const R r, image_size image, random_sequence random) {
      { r.output() } -> std::convertible_to<image_size>;
      { r(image, random) } -> std::same_as<resampling_plan>;
      { r.describe() } -> std::convertible_to<std::string>;
    };

/// For training: a part of the image with random area and aspect ratio (width / height), resized to
/// a square (Szegedy et al. 2015, as in torchvision):
///
///   area ~ U(scale) of the image's,  log(aspect) ~ U(log ratio),  position uniform
///
/// drawn up to ten times until it lies inside the image; then the largest central part whose aspect
/// ratio is within `ratio`.
struct random_resized_crop {
  int size = 224;  ///< Side of the sample. Unit: pixels. Range: 1 or more, else usage_error.
  /// Smallest and largest area of the part, as shares of the image's. Range: 0 < scale[0] <=
  /// scale[1] <= 1, else usage_error. Default: as torchvision.
  std::array<double, 2> scale{0.08, 1};
  /// Smallest and largest aspect ratio, width / height. Range: finite, 0 < ratio[0] <= ratio[1],
  /// else usage_error. Default: as torchvision.
  std::array<double, 2> ratio{3.0 / 4, 4.0 / 3};

  /// size x size.
  [[nodiscard]] image_size output() const { return {size, size}; }

  /// Draws the part. Requires an image with pixels. @throws usage_error for an option out of its
  /// range.
  resampling_plan operator()(image_size image, random_sequence random) const {
    expects(size > 0 && scale[0] > 0 && scale[1] >= scale[0] && scale[1] <= 1 && ratio[0] > 0 &&
                ratio[1] >= ratio[0] && std::isfinite(ratio[1]),
            "random_resized_crop: the size is positive, 0 < scale[0] <= scale[1] <= 1, and "
            "0 < ratio[0] <= ratio[1]");
    return {source(image, random), {size, size}, {0, 0, size, size}};
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("random crops of ", 100 * scale[0], " to ", 100 * scale[1],
                  " % of the area, aspect ", ratio[0], " to ", ratio[1], ", resized to ", size,
                  " x ", size);
  }

 private:
  [[nodiscard]] region source(image_size image, random_sequence& random) const {
    const double area = static_cast<double>(image.width) * image.height;
    const double low = std::log(ratio[0]), high = std::log(ratio[1]);
    for (int attempt = 0; attempt < 10; ++attempt) {
      const double target = area * (scale[0] + (scale[1] - scale[0]) * random.uniform());
      const double aspect = std::exp(low + (high - low) * random.uniform());
      // To nearest, ties to even, as Python's round.
      const double width = std::nearbyint(std::sqrt(target * aspect)),
                   height = std::nearbyint(std::sqrt(target / aspect));
      if (width < 1 || width > image.width || height < 1 || height > image.height) continue;
      const int w = static_cast<int>(width), h = static_cast<int>(height);
      const auto top = random.below(static_cast<std::uint32_t>(image.height - h) + 1);
      const auto left = random.below(static_cast<std::uint32_t>(image.width - w) + 1);
      return {static_cast<int>(left), static_cast<int>(top), w, h};
    }
    return central(image);
  }

  [[nodiscard]] region central(image_size image) const {
    const double aspect = static_cast<double>(image.width) / image.height;
    int w = image.width, h = image.height;
    if (aspect < ratio[0])
      h = std::max(1, static_cast<int>(std::nearbyint(w / ratio[0])));
    else if (aspect > ratio[1])
      w = std::max(1, static_cast<int>(std::nearbyint(h * ratio[1])));
    return {(image.width - w) / 2, (image.height - h) / 2, w, h};
  }
};
static_assert(Resampling<random_resized_crop>);

/// For evaluation: the shorter side is resized to `resize`, the longer one in proportion, and the
/// central square of `crop` pixels is kept.
struct resize_center_crop {
  /// Shorter side after resizing. Unit: pixels. Range: `crop` or more, else usage_error.
  int resize = 256;
  /// Side of the square that is kept. Unit: pixels. Range: 0 < crop <= resize, else usage_error.
  int crop = 224;

  /// crop x crop.
  [[nodiscard]] image_size output() const { return {crop, crop}; }

  /// Requires an image with pixels. A longer side beyond the largest int becomes the largest int.
  /// @throws usage_error for an option out of its range.
  resampling_plan operator()(image_size image,
                             random_sequence = {0, purpose::resampling, 0, 0}) const {
    expects(crop > 0 && resize >= crop,
            "resize_center_crop: the crop is positive and not larger than the resized side");
    const std::int64_t shorter = std::min(image.width, image.height),
                       longer = std::max(image.width, image.height);
    const auto side = static_cast<int>(
        std::min<std::int64_t>(resize * longer / shorter, std::numeric_limits<int>::max()));
    const image_size resized =
        image.width <= image.height ? image_size{resize, side} : image_size{side, resize};
    return {{0, 0, image.width, image.height},
            resized,
            {middle(resized.width), middle(resized.height), crop, crop}};
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("shorter side resized to ", resize, ", center crop of ", crop, " x ", crop);
  }

 private:
  [[nodiscard]] int middle(int side) const {
    return static_cast<int>(std::nearbyint((static_cast<double>(side) - crop) / 2));
  }
};
static_assert(Resampling<resize_center_crop>);

}  // namespace cordee::inline CORDEE_ABI
