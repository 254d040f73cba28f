// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Pixels as a file that needs no decoding, which packed_images gives:
//
//   "CORDEEPX"  width  height  then height rows of width pixels, RGB   (little-endian 32-bit words)
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include <cordee/core/error.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/images/region.hpp>
#include <cordee/images/sample_error.hpp>

namespace cordee::inline CORDEE_ABI::detail::images {

struct raw_pixels {
  static constexpr std::string_view magic = "CORDEEPX";
  static constexpr std::size_t header_size = 16;

  [[nodiscard]] static bool is_raw(std::span<const std::uint8_t> file) {
    return file.size() >= header_size && std::memcmp(file.data(), magic.data(), magic.size()) == 0;
  }

  /// Requires is_raw(file).
  [[nodiscard]] static image_size size(std::span<const std::uint8_t> file,
                                       const std::string& name) {
    const std::uint64_t width = word(file.data() + 8), height = word(file.data() + 12);
    constexpr std::uint64_t longest = 1u << 20;
    if (width == 0 || height == 0 || width > longest || height > longest ||
        header_size + 3 * width * height != file.size())
      throw sample_error(concat(name, ": its size is not that of its pixels; pack the data again"));
    return {static_cast<int>(width), static_cast<int>(height)};
  }

  static void decode(std::span<const std::uint8_t> file, const std::string& name, const region& r,
                     detail::core::pod_vector<std::uint8_t>& rgb) {
    const image_size whole = size(file, name);
    expects(lies_in(r, whole), "decoder: the region is not in the image");
    const std::size_t bytes = 3 * static_cast<std::size_t>(r.width);
    rgb.resize(bytes * static_cast<std::size_t>(r.height));
    for (std::size_t y = 0; y < static_cast<std::size_t>(r.height); ++y)
      std::memcpy(
          rgb.data() + y * bytes,
          file.data() + header_size +
              3 * ((static_cast<std::size_t>(r.top) + y) * static_cast<std::size_t>(whole.width) +
                   static_cast<std::size_t>(r.left)),
          bytes);
  }

  static void write_header(const image_size& size, std::span<std::uint8_t, header_size> out) {
    std::copy(magic.begin(), magic.end(), out.begin());
    for (std::size_t k = 0; k < 4; ++k) {
      out[8 + k] = static_cast<std::uint8_t>(static_cast<std::uint32_t>(size.width) >> (8 * k));
      out[12 + k] = static_cast<std::uint8_t>(static_cast<std::uint32_t>(size.height) >> (8 * k));
    }
  }

 private:
  static std::uint32_t word(const std::uint8_t* p) {
    return p[0] | std::uint32_t{p[1]} << 8 | std::uint32_t{p[2]} << 16 | std::uint32_t{p[3]} << 24;
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::images
