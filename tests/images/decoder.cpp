// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/images/decoder.hpp>

#include "tests/images/encode.hpp"
#include "tests/support/folder.hpp"

using namespace cordee;
using namespace cordee::detail::images;
using namespace support;

namespace {

const std::vector<jpeg_kind> kinds{{"4:4:4"},
                                   {"4:2:2", 3, {2, 1}},
                                   {"4:2:0", 3, {2, 2}},
                                   {"4:4:0", 3, {1, 2}},
                                   {"4:1:1", 3, {4, 1}},
                                   {"4:1:0", 3, {4, 2}},
                                   {"3:1", 3, {3, 1}},
                                   {"3:1, 2 rows", 3, {3, 2}},
                                   {"2 x 4", 3, {2, 4}},
                                   {"1 x 4", 3, {1, 4}},
                                   {"2 x 3", 3, {2, 3}},
                                   {"half of each", 3, {2, 1}, {1, 2}},
                                   {"4:2:2 of 2 rows", 3, {2, 2}, {1, 2}},
                                   {"4:4:0 of 2 columns", 3, {2, 2}, {2, 1}},
                                   {"larger chroma", 3, {1, 1}, {2, 2}},
                                   {"gray", 1},
                                   {"gray, 2x2", 1, {2, 2}},
                                   {"RGB", 3, {1, 1}, {1, 1}, false, false, true},
                                   {"progressive 4:2:0", 3, {2, 2}, {1, 1}, true},
                                   {"progressive 4:4:4", 3, {1, 1}, {1, 1}, true},
                                   {"progressive gray", 1, {1, 1}, {1, 1}, true},
                                   {"restarts", 3, {2, 2}, {1, 1}, false, false, false, 3},
                                   {"arithmetic", 3, {2, 2}, {1, 1}, false, true},
                                   {"CMYK", 4},
                                   {"YCCK", 4, {2, 2}, {1, 1}, false, false, false, 0, 80, true},
                                   {"progressive CMYK", 4, {1, 1}, {1, 1}, true}};

file_bytes region_of(decoder& d, const file_bytes& file, const region& r, int scale = 1) {
  detail::core::pod_vector<std::uint8_t> rgb;
  d.decode(file, "image", r, scale, rgb);
  return {rgb.begin(), rgb.end()};
}

/// A region of an image of size s, often at its borders.
region some_region(const image_size& s, random_sequence& random) {
  const auto side = [&](int n, int& begin, int& length) {
    const auto all = static_cast<std::uint32_t>(n);
    length = random.below(8) == 0 ? n : 1 + static_cast<int>(random.below(all));
    const auto rest = static_cast<std::uint32_t>(n - length);
    begin = random.below(4) == 0 ? n - length : static_cast<int>(random.below(rest + 1));
  };
  region r;
  side(s.width, r.left, r.width);
  side(s.height, r.top, r.height);
  return r;
}

}  // namespace

TEST_CASE("decoder: every region of a JPEG is the crop of its whole decode, bit for bit") {
  decoder d;
  random_sequence random(7, purpose::test, 0, 0);
  for (const jpeg_kind& kind : kinds)
    for (const auto& [width, height] : {std::pair{97, 61}, std::pair{64, 48}, std::pair{7, 130}}) {
      const file_bytes file = encode_jpeg(kind, width, height);
      CHECK(d.size(file, "image") == image_size{width, height});
      for (const int scale : {1, 2, 4, 8}) {
        const decoded whole = decode_whole(file, scale);
        REQUIRE(whole.size == reduced({width, height}, scale));
        for (int k = 0; k < 40; ++k) {
          const region r = k == 0 ? region{0, 0, whole.size.width, whole.size.height}
                                  : some_region(whole.size, random);
          INFO(std::string(kind.name), " ", width, "x", height, " 1/", scale, ": ", r.width, "x",
               r.height, "+", r.left, "+", r.top);
          CHECK(region_of(d, file, r, scale) == crop(whole, r));
        }
      }
    }
}

TEST_CASE("decoder: a truncated JPEG is refused at every byte, whichever region is asked for") {
  decoder d;
  for (const jpeg_kind& kind : {kinds[2], kinds[18]}) {
    const file_bytes file = encode_jpeg(kind, 40, 24);
    CHECK_NOTHROW(region_of(d, file, {0, 0, 1, 1}));
    for (std::size_t n = 0; n < file.size(); ++n) {
      const file_bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(n));
      INFO(std::string(kind.name), ": ", n, " of ", file.size(), " bytes");
      CHECK_THROWS_AS(d.size(cut, "image"), sample_error);
      CHECK_THROWS_AS(region_of(d, cut, {0, 0, 1, 1}), sample_error);
      file_bytes ended = cut;
      ended.insert(ended.end(), {0xff, 0xd9});
      if (n + 40 >= file.size()) continue;  // the last codes are zeros that may be missing
      bool is_complete = false;             // after any scan of a progressive JPEG
      try {
        const region r{7, 5, 20, 10};
        const file_bytes part = region_of(d, ended, r);
        is_complete = part == crop(decode_whole(ended), r);
        CHECK(is_complete);
      } catch (const sample_error&) {
      }
      CHECK((!is_complete || kind.progressive));
    }
    CHECK(region_of(d, file, {0, 0, 40, 24}) == decode_whole(file).rgb);  // as before the errors
  }
}

TEST_CASE("decoder: bytes after a JPEG's end are passed over") {
  decoder d;
  file_bytes file = encode_jpeg({"4:2:0", 3, {2, 2}}, 40, 24);
  const decoded whole = decode_whole(file);
  file.resize(file.size() + 100);
  CHECK(region_of(d, file, {3, 5, 20, 10}) == crop(whole, {3, 5, 20, 10}));
}

TEST_CASE("decoder: other files are refused with their name and the reason") {
  decoder d;
  const auto refusal = [&](const file_bytes& file) {
    const std::string size = message_of<sample_error>([&] { d.size(file, "rose.jpg"); });
    detail::core::pod_vector<std::uint8_t> rgb;
    CHECK(size == message_of<sample_error>([&] {
            d.decode(file, "rose.jpg", {0, 0, 1, 1}, 1, rgb);
          }));
    return size;
  };
  CHECK(refusal({}) == "rose.jpg: it is empty; fetch the file again, or remove it");
  CHECK(refusal({'G', 'I', 'F', '8', '9', 'a', 0, 0, 0, 0}) ==
        "rose.jpg: it is no JPEG or PNG; fetch the file again, or remove it");

  decoder small(100);
  const file_bytes jpeg = encode_jpeg({"gray", 1}, 13, 8), png = encode_png({"RGB"}, 13, 8);
  for (const file_bytes& file : {jpeg, png}) {
    CHECK(contains_all(message_of<sample_error>([&] { small.size(file, "rose.jpg"); }),
                       {"rose.jpg", "more pixels than the decoder's limit"}));
    CHECK_THROWS_AS(region_of(small, file, {0, 0, 1, 1}), sample_error);
    CHECK_THROWS_AS(region_of(d, file, {0, 0, 14, 1}), usage_error);
    CHECK_THROWS_AS(region_of(d, file, {0, 8, 1, 1}), usage_error);
    CHECK_THROWS_AS(region_of(d, file, {0, 0, 1, 0}), usage_error);
    CHECK_NOTHROW(region_of(d, file, {12, 7, 1, 1}));
  }
  CHECK_THROWS_AS(region_of(d, png, {0, 0, 1, 1}, 2), usage_error);
  CHECK_THROWS_AS(region_of(d, jpeg, {0, 0, 1, 1}, 3), usage_error);
}

TEST_CASE("decoder: flipped bits of a JPEG or PNG end in pixels or an error") {
  decoder d(1 << 16);
  random_sequence random(11, purpose::test, 0, 0);
  for (const file_bytes& file :
       {encode_jpeg(kinds[2], 40, 24), encode_jpeg(kinds[18], 40, 24), encode_png({"RGB"}, 9, 7)})
    for (int k = 0; k < 2000; ++k) {
      file_bytes flipped = file;
      for (int n = 0; n < 3; ++n)
        flipped[random.below(static_cast<std::uint32_t>(file.size()))] ^=
            static_cast<std::uint8_t>(1u << random.below(8));
      try {
        const image_size s = d.size(flipped, "image");
        const std::size_t size = region_of(d, flipped, {0, 0, s.width, s.height}).size();
        CHECK(size == 3 * static_cast<std::size_t>(s.width * s.height));
      } catch (const sample_error&) {
      }
    }
}
