// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Regions, scales and damaged files: decoder.cpp.
#include <algorithm>

#include <doctest/doctest.h>

#include <cordee/images/jpeg.hpp>

#include "tests/images/encode.hpp"
#include "tests/support/folder.hpp"

using namespace cordee;
using namespace cordee::detail::images;
using namespace support;

TEST_CASE("jpeg: many scans of a few bytes each are refused, not decoded for hours") {
  file_bytes file = encode_jpeg({"progressive", 1, {1, 1}, {1, 1}, true}, 8, 8);
  const std::uint8_t start_of_scan[] = {0xff, 0xda};
  const auto scan = std::search(file.begin(), file.end(), start_of_scan, start_of_scan + 2);
  const file_bytes first(scan, std::search(scan + 2, file.end(), start_of_scan, start_of_scan + 2));
  const auto with_scans = [&](int n) {
    file_bytes all(file.begin(), scan);
    for (int k = 0; k < n; ++k) all.insert(all.end(), first.begin(), first.end());
    all.insert(all.end(), {0xff, 0xd9});
    return all;
  };
  jpeg_reader reader(1 << 20);
  detail::core::pod_vector<std::uint8_t> rgb;
  CHECK_NOTHROW(reader.decode(with_scans(1), "rose.jpg", {0, 0, 8, 8}, 1, rgb));
  CHECK(contains_all(message_of<sample_error>([&] {
                       reader.decode(with_scans(600), "rose.jpg", {0, 0, 8, 8}, 1, rgb);
                     }),
                     {"rose.jpg: damaged or unsupported JPEG: "}));
}

TEST_CASE("jpeg: scans times pixels are bounded by the limit of pixels") {
  const file_bytes file =
      encode_jpeg({"progressive", 3, {2, 2}, {1, 1}, true}, 40, 30);  // 10 scans
  detail::core::pod_vector<std::uint8_t> rgb;
  const auto refusal = [&](std::uint64_t most_pixels) {
    jpeg_reader reader(most_pixels);
    return message_of<sample_error>([&] {
      reader.decode(file, "rose.jpg", {0, 0, 40, 30}, 1, rgb);
    });
  };
  CHECK(refusal(4000).empty());
  CHECK(contains_all(refusal(3999), {"rose.jpg: ", too_many_passes}));
  // Six scans at least, before there is memory for coefficients.
  CHECK(contains_all(refusal(2399), {"rose.jpg: ", too_many_passes}));
  CHECK(message_of<sample_error>([&] { jpeg_reader(2400).size(file, "rose.jpg"); }).empty());
  CHECK(contains_all(message_of<sample_error>([&] { jpeg_reader(2399).size(file, "rose.jpg"); }),
                     {"rose.jpg: ", too_many_passes}));
  const file_bytes plain = encode_jpeg({"baseline", 3, {2, 2}}, 40, 30);
  CHECK_NOTHROW(jpeg_reader(1200).decode(plain, "rose.jpg", {0, 0, 40, 30}, 1, rgb));
}

TEST_CASE("jpeg: an image has no tables of the image before") {
  const file_bytes whole = encode_jpeg({"baseline", 1, {1, 1}, {1, 1}, false}, 8, 8);
  const std::uint8_t quantization[] = {0xff, 0xdb};
  file_bytes without = whole;
  for (auto at = without.end(); (at = std::search(without.begin(), without.end(), quantization,
                                                  quantization + 2)) != without.end();)
    without.erase(at, at + 2 + (at[2] << 8 | at[3]));
  REQUIRE(without.size() < whole.size());
  jpeg_reader reader(1 << 20);
  detail::core::pod_vector<std::uint8_t> rgb;
  for (int k = 0; k < 2; ++k) {
    CHECK(contains_all(message_of<sample_error>([&] {
                         reader.decode(without, "rose.jpg", {0, 0, 8, 8}, 1, rgb);
                       }),
                       {"rose.jpg: damaged or unsupported JPEG: "}));
    CHECK_NOTHROW(reader.decode(whole, "rose.jpg", {0, 0, 8, 8}, 1, rgb));
  }
}

TEST_CASE("jpeg: only files that begin as one are one") {
  CHECK(is_jpeg(file_bytes{0xff, 0xd8, 0xff, 0xe0}));
  CHECK_FALSE(is_jpeg(file_bytes{0xff, 0xd8}));
  CHECK_FALSE(is_jpeg(file_bytes{0xff, 0xd8, 0x00}));
  CHECK_FALSE(is_jpeg(file_bytes{}));
}
