// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <doctest/doctest.h>

#include <cordee/data/split.hpp>
#include <cordee/images/decoded_images.hpp>
#include <cordee/images/decoder.hpp>
#include <cordee/images/packed_images.hpp>
#include <cordee/testing/encoded_dataset_laws.hpp>

#include "tests/images/encode.hpp"
#include "tests/support/folder.hpp"

using namespace cordee;
using namespace cordee::detail::images;
using namespace support;

namespace {

/// Writes 23 images of different sizes, labels 0 .. 2.
std::string pack_some(const folder& f) {
  packed_writer writer(f.file("packed"));
  for (int i = 0; i < 23; ++i)
    writer.add({5 + i, 3 + i % 4}, picture(5 + i, 3 + i % 4), i % 3, concat("image ", i, ".jpg"));
  writer.finish(3);
  return f.file("packed");
}

}  // namespace

TEST_CASE("packed images: the decoder finds the pixels, labels and names that were packed") {
  const folder f;
  const packed_images data(pack_some(f));
  CHECK(data.size() == 23);
  CHECK(data.classes() == 3);
  decoder d;
  file_bytes file;
  for (int i = 0; i < 23; ++i) {
    const auto k = static_cast<std::size_t>(i);
    CHECK(data.read(k, file) == i % 3);
    CHECK(data.name(k) == concat(f.file("packed"), ", image ", i, ".jpg"));
    const image_size size = d.size(file, data.name(k));
    CHECK(size == image_size{5 + i, 3 + i % 4});
    detail::core::pod_vector<std::uint8_t> rgb;
    d.decode(file, data.name(k), {0, 0, size.width, size.height}, 1, rgb);
    CHECK(file_bytes(rgb.begin(), rgb.end()) == picture(size.width, size.height));
  }
  CHECK_THROWS_AS(data.read(23, file), usage_error);
  CHECK_THROWS_AS((void)data.name(23), usage_error);
  CHECK(encoded_dataset_laws(data) == "");
  CHECK(f.files() == 1);  // no partial file
}

TEST_CASE("packed images: without finish there is no file, and an empty set is one") {
  const folder f;
  {
    packed_writer writer(f.file("packed"));
    writer.add({1, 1}, picture(1, 1), 0, "a");
  }
  CHECK(f.files() == 0);
  packed_writer(f.file("packed")).finish(2);
  CHECK(packed_images(f.file("packed")).size() == 0);
}

TEST_CASE("packed images: a file that is cut anywhere is refused") {
  const folder f, cut;
  const file_bytes file = f.get(pack_some(f).substr(f.file("").size()));
  for (std::size_t n = 0; n<file.size(); n += n + 200> file.size() ? 1 : 97) {
    const std::string path =
        cut.put("cut", file_bytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(n)));
    CHECK(contains_all(message_of<error>([&] { packed_images{path}; }),
                       {path, "pack the images again"}));
  }
}

TEST_CASE("packed images: every damaged byte is found, in an image when it is read") {
  const folder f, other;
  const file_bytes file = f.get(pack_some(f).substr(f.file("").size()));
  std::size_t refused = 0, found = 0;
  for (std::size_t at = 0; at < file.size(); at += at % 64 < 32 ? 1 : 32) {
    file_bytes damaged = file;
    damaged[at] ^= 0x20;
    const std::string path = other.put("damaged", damaged);
    try {
      const packed_images data(path);
      std::size_t wrong = 0;
      file_bytes image;
      for (std::size_t i = 0; i < data.size(); ++i) try {
          data.read(i, image);
        } catch (const sample_error&) {
          ++wrong;
        }
      CHECK(wrong == 1);
      ++found;
    } catch (const error&) {
      ++refused;
    }
  }
  CHECK(found > 100);
  CHECK(refused > 100);
}

TEST_CASE("packed images: another version is named") {
  const folder f;
  file_bytes file = f.get(pack_some(f).substr(f.file("").size()));
  file[8] = 2;
  const std::string path = f.put("packed", file);
  CHECK(message_of<error>([&] {
          packed_images{path};
        }).starts_with(concat(path, ": its version is 2, and this library reads version 1")));
}

TEST_CASE("packed images: split takes the labels from the index, and checks no image") {
  const folder f;
  file_bytes file = f.get(std::filesystem::path(pack_some(f)).filename());
  for (std::size_t i = 16; i < 2000; ++i) file[i] ^= 0x55;  // images, but the last ones
  const packed_images data(f.put("damaged", file));
  const auto parts = split(decoded_images{data, resize_center_crop{8, 8}}, 0.3, 1);
  CHECK(parts.validation.size() == 7);
  for (std::size_t i = 0; i < parts.training.size(); ++i)
    CHECK(parts.training.label(i) == static_cast<int>(parts.training.indices()[i] % 3));
  CHECK_THROWS_AS((void)parts.validation.label(7), usage_error);
  CHECK_THROWS_AS(data.read(0, file), sample_error);
  CHECK_THROWS_AS((void)data.label(23), usage_error);
}
