// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/images/pack.hpp>
#include <cordee/testing/encoded_dataset_laws.hpp>

#include "tests/images/encode.hpp"
#include "tests/support/folder.hpp"

using namespace cordee;
using namespace cordee::detail::images;
using namespace support;

namespace {

/// Forty JPEGs and PNGs of different sizes; `broken` of them is truncated.
struct in_memory {
  std::vector<file_bytes> files;
  std::size_t unreadable = 1000;

  explicit in_memory(std::size_t broken = 1000) {
    for (int i = 0; i < 40; ++i)
      files.push_back(
          i % 4 == 0 ? encode_png({"RGB"}, 20 + i, 30)
                     : encode_jpeg({"4:2:0", 3, {2, 2}}, 20 + i, 30, static_cast<unsigned>(i)));
    if (broken < 40) files[broken].resize(files[broken].size() / 2);
  }
  int classes() const { return 5; }
  std::size_t size() const { return files.size(); }
  int read(std::size_t i, file_bytes& file) const {
    if (i == unreadable) throw error("disk failure");
    file = files[i];
    return static_cast<int>(i % 5);
  }
  std::string name(std::size_t i) const { return concat("image ", i); }
};

file_bytes pixels(const packed_images& data, std::size_t i) {
  file_bytes file;
  data.read(i, file);
  return {file.begin() + raw_pixels::header_size, file.end()};
}

}  // namespace

TEST_CASE("pack: the shorter side is resized as by torchvision, and small images are kept") {
  CHECK(with_shorter_side({500, 375}, 256) == image_size{341, 256});
  CHECK(with_shorter_side({375, 500}, 256) == image_size{256, 341});
  CHECK(with_shorter_side({256, 1000}, 256) == image_size{256, 1000});
  CHECK(with_shorter_side({100, 255}, 256) == image_size{100, 255});
  CHECK(with_shorter_side({1 << 20, 1 << 20}, 7) == image_size{7, 7});
}

TEST_CASE("pack: pixels are those of the decoder and the resizer, for any number of threads") {
  const folder f;
  const in_memory data;
  for (const unsigned threads : {1u, 3u}) {
    const pack_result result =
        pack(data, f.file("packed"), {.shorter_side = 25, .threads = threads});
    CHECK(result.images == 40);
    CHECK(result.broken == 0);
    const packed_images packed(f.file("packed"));
    REQUIRE(packed.size() == 40);
    CHECK(packed.classes() == 5);
    CHECK(encoded_dataset_laws(packed) == "");
    decoder d;
    resizer resize;
    file_bytes file;
    for (std::size_t i = 0; i < 40; ++i) {
      CHECK(packed.read(i, file) == static_cast<int>(i % 5));
      CHECK(packed.name(i) == concat(f.file("packed"), ", image ", i));
      const image_size from = d.size(data.files[i], ""), to = d.size(file, "");
      CHECK(to == with_shorter_side(from, 25));
      detail::core::pod_vector<std::uint8_t> rgb;
      d.decode(data.files[i], "", {0, 0, from.width, from.height}, 1, rgb);
      const file_bytes part = pixels(packed, i);
      if (to == from) {
        CHECK(part == file_bytes(rgb.begin(), rgb.end()));
        continue;
      }
      const region source = resize.prepare(from, to, {0, 0, to.width, to.height});
      CHECK(source == region{0, 0, from.width, from.height});
      rgb.resize(rgb.size() + resizer::slack);
      file_bytes planar(part.size());
      resize.resize(rgb.span(), planar);
      const std::size_t plane = planar.size() / 3;
      bool equal = true;
      for (std::size_t k = 0; k < plane; ++k)
        for (std::size_t c = 0; c < 3; ++c)
          equal = equal && part[3 * k + c] == planar[c * plane + k];
      CHECK(equal);
    }
  }
}

TEST_CASE("pack: a broken image ends it, or is left out and named; a failure leaves the old file") {
  const folder f;
  f.put("packed", {1, 2, 3});
  in_memory data(17);
  CHECK(message_of<sample_error>([&] {
          pack(data, f.file("packed"), {.threads = 2});
        }).starts_with("image 17: "));
  data.unreadable = 30;
  const pack_options skip{.broken = broken_image::skip, .threads = 2};
  CHECK(message_of<error>([&] { pack(data, f.file("packed"), skip); }) == "disk failure");
  for (const pack_options& wrong : {pack_options{.shorter_side = 0}, {.threads = 1025}})
    CHECK_THROWS_AS(pack(data, f.file("packed"), wrong), usage_error);
  CHECK(f.get("packed") == file_bytes{1, 2, 3});
  CHECK(f.files() == 1);
  data.unreadable = 1000;
  const pack_result result = pack(data, f.file("packed"), skip);
  CHECK(result.images == 39);
  CHECK(result.broken == 1);
  CHECK(result.first_broken.starts_with("image 17: "));
  const packed_images packed(f.file("packed"));
  CHECK(packed.size() == 39);
  CHECK(packed.name(17).ends_with(", image 18"));
}
