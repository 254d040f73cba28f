// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <doctest/doctest.h>

#include <cordee/images/png.hpp>

#include "tests/images/encode.hpp"
#include "tests/support/folder.hpp"

using namespace cordee;
using namespace cordee::detail::images;
using namespace support;

namespace {

const std::vector<png_kind> kinds{
    {"RGB"},
    {"RGB of 16 bits", PNG_COLOR_TYPE_RGB, 16},
    {"RGB with a transparent color", PNG_COLOR_TYPE_RGB, 8, false, true},
    {"RGBA", PNG_COLOR_TYPE_RGBA},
    {"RGBA of 16 bits", PNG_COLOR_TYPE_RGBA, 16},
    {"gray", PNG_COLOR_TYPE_GRAY},
    {"gray of 1 bit", PNG_COLOR_TYPE_GRAY, 1},
    {"gray of 2 bits", PNG_COLOR_TYPE_GRAY, 2},
    {"gray of 4 bits", PNG_COLOR_TYPE_GRAY, 4},
    {"gray of 16 bits", PNG_COLOR_TYPE_GRAY, 16},
    {"gray with alpha", PNG_COLOR_TYPE_GRAY_ALPHA},
    {"palette", PNG_COLOR_TYPE_PALETTE},
    {"palette of 2 bits", PNG_COLOR_TYPE_PALETTE, 2},
    {"transparent palette", PNG_COLOR_TYPE_PALETTE, 4, false, true}};

file_bytes region_of(png_reader& reader, const file_bytes& file, const region& r) {
  detail::core::pod_vector<std::uint8_t> rgb;
  reader.decode(file, "image", r, rgb);
  return {rgb.begin(), rgb.end()};
}

}  // namespace

TEST_CASE("png: every color type, depth and order of rows becomes RGB of 8 bits") {
  png_reader reader(1 << 20);
  for (png_kind kind : kinds)
    for (const bool interlaced : {false, true})
      for (const auto& [width, height] : {std::pair{19, 13}, std::pair{1, 1}, std::pair{3, 40}}) {
        kind.interlaced = interlaced;
        const file_bytes file = encode_png(kind, width, height);
        CHECK(reader.size(file, "image") == image_size{width, height});
        const region regions[] = {{0, 0, width, height},
                                  {width / 2, height / 3, width - width / 2, 1},
                                  {width - 1, height - 1, 1, 1}};
        for (const region& r : regions) {
          file_bytes expected;
          for (int y = r.top; y < r.top + r.height; ++y)
            for (int x = r.left; x < r.left + r.width; ++x)
              for (const std::uint8_t c : rgb_of(kind, x, y)) expected.push_back(c);
          INFO(std::string(kind.name), interlaced ? ", interlaced " : " ", width, "x", height);
          CHECK(region_of(reader, file, r) == expected);
        }
      }
}

TEST_CASE("png: seven passes times pixels are bounded by the limit of pixels") {
  png_kind kind = kinds[0];
  const file_bytes plain = encode_png(kind, 30, 10);
  kind.interlaced = true;
  const file_bytes interlaced = encode_png(kind, 30, 10);
  CHECK_NOTHROW(png_reader(300).size(plain, "rose.png"));
  CHECK_NOTHROW(png_reader(700).size(interlaced, "rose.png"));
  CHECK(
      contains_all(message_of<sample_error>([&] { png_reader(699).size(interlaced, "rose.png"); }),
                   {"rose.png: ", too_many_passes}));
}

TEST_CASE("png: a truncated file is refused at every byte, whichever region is asked for") {
  png_reader reader(1 << 20);
  const file_bytes file = encode_png(kinds[0], 19, 13);
  for (std::size_t n = 0; n < file.size(); ++n) {
    const file_bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(n));
    CHECK_THROWS_AS(reader.size(cut, "image"), sample_error);
    CHECK_THROWS_AS(region_of(reader, cut, {0, 0, 1, 1}), sample_error);
  }
}

TEST_CASE("png: damage of the pixels is found by their checksum") {
  png_reader reader(1 << 20);
  const file_bytes file = encode_png(kinds[0], 19, 13);
  const char idat[] = "IDAT";
  const auto data = std::search(file.begin(), file.end(), idat, idat + 4) - file.begin() + 4;
  for (std::ptrdiff_t at = data; at + 16 < std::ssize(file); ++at) {  // not the last chunk, IEND
    file_bytes damaged = file;
    damaged[static_cast<std::size_t>(at)] ^= 0x10;
    CHECK(contains_all(message_of<sample_error>([&] {
                         region_of(reader, damaged, {0, 0, 19, 13});
                       }),
                       {"image: damaged or unsupported PNG: "}));
  }
}
