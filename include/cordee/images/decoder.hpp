// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Decodes a region of an image file: JPEG, PNG or raw pixels, by the first bytes, whatever its
// name.
//
// A JPEG is decoded from its first row to the region's last, since its codes follow one another,
// but only the rows and columns of the region (and two columns beside it) are transformed back to
// pixels. The result equals the crop of the whole decode bit for bit. EXIF's orientation is
// not followed and color profiles are not applied, as by torchvision's ImageFolder.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <cordee/core/error.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/images/jpeg.hpp>
#include <cordee/images/png.hpp>
#include <cordee/images/raw_pixels.hpp>
#include <cordee/images/region.hpp>
#include <cordee/images/sample_error.hpp>

namespace cordee::inline CORDEE_ABI::detail::images {

/// One per thread; keeps its memory from image to image. Its members throw sample_error for files
/// that are damaged, truncated, of another format, larger than `most_pixels`, or of too many passes
/// (images/pass_limit.hpp); `name` is in the message. Sizes are checked before memory is made.
class decoder {
 public:
  /// The most that Pillow opens; the largest sensors of cameras have 151 million.
  static constexpr std::uint64_t default_most_pixels = 178'956'970;

  explicit decoder(std::uint64_t most_pixels = default_most_pixels)
      : jpeg_(most_pixels), png_(most_pixels) {}

  /// Whether `decode` can reduce the image by a scale other than 1: JPEGs alone.
  [[nodiscard]] static bool can_scale(std::span<const std::uint8_t> file) { return is_jpeg(file); }

  image_size size(std::span<const std::uint8_t> file, const std::string& name) {
    if (is_jpeg(file)) return jpeg_.size(file, name);
    if (is_png(file)) return png_.size(file, name);
    if (raw_pixels::is_raw(file)) return raw_pixels::size(file, name);
    refuse(file, name);
  }

  /// The pixels of `r`, which lies in the image reduced by 1/scale: scale 1, 2, 4 or 8, and sides
  /// rounded up. `rgb` becomes (r.height, r.width, 3).
  void decode(std::span<const std::uint8_t> file, const std::string& name, const region& r,
              int scale, detail::core::pod_vector<std::uint8_t>& rgb) {
    expects(scale == 1 || ((scale == 2 || scale == 4 || scale == 8) && can_scale(file)),
            "decoder: the scale is 1, or 2, 4 or 8 for a JPEG");
    if (is_jpeg(file)) return jpeg_.decode(file, name, r, scale, rgb);
    if (is_png(file)) return png_.decode(file, name, r, rgb);
    if (raw_pixels::is_raw(file)) return raw_pixels::decode(file, name, r, rgb);
    refuse(file, name);
  }

 private:
  [[noreturn]] static void refuse(std::span<const std::uint8_t> file, const std::string& name) {
    throw sample_error(concat(name, file.empty() ? ": it is empty" : ": it is no JPEG or PNG",
                              "; fetch the file again, or remove it"));
  }

  jpeg_reader jpeg_;
  png_reader png_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::images
