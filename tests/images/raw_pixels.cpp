// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/images/decoder.hpp>

#include "tests/images/encode.hpp"
#include "tests/support/folder.hpp"

using namespace cordee;
using namespace cordee::detail::images;
using namespace support;

namespace {

file_bytes raw_file(const image_size& size, const file_bytes& rgb) {
  file_bytes out(raw_pixels::header_size);
  raw_pixels::write_header(size, std::span<std::uint8_t, raw_pixels::header_size>(out));
  out.insert(out.end(), rgb.begin(), rgb.end());
  return out;
}

}  // namespace

TEST_CASE("raw pixels: the decoder reads every region of them") {
  decoder d;
  const decoded whole{{300, 7}, picture(300, 7)};
  const file_bytes file = raw_file(whole.size, whole.rgb);
  CHECK(d.size(file, "image") == whole.size);
  for (const region& r : {region{0, 0, 300, 7}, region{299, 6, 1, 1}, region{100, 2, 57, 3}}) {
    detail::core::pod_vector<std::uint8_t> rgb;
    d.decode(file, "image", r, 1, rgb);
    CHECK(file_bytes(rgb.begin(), rgb.end()) == crop(whole, r));
  }
  detail::core::pod_vector<std::uint8_t> rgb;
  CHECK_THROWS_AS(d.decode(file, "image", {0, 0, 301, 7}, 1, rgb), usage_error);
}

TEST_CASE("raw pixels: a size that is not that of the bytes is refused") {
  decoder d;
  const file_bytes file = raw_file({30, 7}, picture(30, 7));
  for (std::size_t n = 0; n < file.size(); ++n)
    CHECK_THROWS_AS(
        d.size(file_bytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(n)), "i"),
        sample_error);
  for (const image_size& s : {image_size{0, 7}, image_size{30, 0}, image_size{-1, 7},
                              image_size{30, 8}, image_size{1 << 30, 1 << 30}})
    CHECK(contains_all(
        message_of<sample_error>([&] { d.size(raw_file(s, picture(30, 7)), "image"); }),
        {"image: its size is not that of its pixels"}));
}
