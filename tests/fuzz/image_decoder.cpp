// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The input is four bytes that choose a region and a scale, and a JPEG, a PNG or raw pixels: it is
// refused with an error, or the region is the same part of the whole image.
#include <cordee/images/decoder.hpp>

#include "tests/fuzz/memory_file.hpp"

using namespace cordee;
using namespace cordee::detail::images;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  static decoder d(1 << 14);
  static detail::core::pod_vector<std::uint8_t> part, all;
  const std::span<const std::uint8_t> file(data + 4, size - 4);
  try {
    const image_size s = d.size(file, "input");
    fuzz::require(s.width > 0 && s.height > 0 && s.width <= (1 << 14) / s.height,
                  "the size is within the limit");
    const int scale = decoder::can_scale(file) ? 1 << (data[0] & 3) : 1;
    const image_size whole = reduced(s, scale);
    const int left = data[1] % whole.width, top = data[2] % whole.height;
    const region r{left, top, 1 + data[3] % (whole.width - left),
                   1 + (data[0] >> 2) % (whole.height - top)};
    d.decode(file, "input", r, scale, part);
    const auto width = static_cast<std::size_t>(r.width);
    fuzz::require(part.size() == 3 * width * static_cast<std::size_t>(r.height),
                  "the pixels are those of the region");
    d.decode(file, "input", {0, 0, whole.width, whole.height}, scale, all);  // may find more damage
    for (std::size_t y = 0; y < static_cast<std::size_t>(r.height); ++y) {
      const std::size_t at =
          (static_cast<std::size_t>(top) + y) * static_cast<std::size_t>(whole.width) +
          static_cast<std::size_t>(left);
      fuzz::require(std::equal(part.begin() + 3 * width * y, part.begin() + 3 * width * (y + 1),
                               all.begin() + 3 * at),
                    "a region is the crop of the whole");
    }
  } catch (const sample_error&) {
  }
  return 0;
}
