// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <set>

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cordee/data/split.hpp>
#include <cordee/images/decoded_images.hpp>
#include <cordee/images/decoder.hpp>
#include <cordee/images/image_folder.hpp>
#include <cordee/testing/encoded_dataset_laws.hpp>

#include "tests/images/encode.hpp"
#include "tests/images/records.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/skip.hpp"

using namespace cordee;
using namespace support;

namespace {

struct image_files {
  folder f;

  void put(const std::string& name, const file_bytes& file = {1, 2, 3}) const {
    std::filesystem::create_directories(std::filesystem::path(f.file(name)).parent_path());
    f.put(name, file);
  }
  std::string path() const { return f.file("train"); }
  std::string refusal(image_folder_options options = {}) const {
    return message_of<error>([&] { image_folder(path(), options); });
  }
  /// Names of the samples, relative to the folder.
  std::vector<std::string> names() const {
    const image_folder data(path());
    std::vector<std::string> out;
    for (std::size_t i = 0; i < data.size(); ++i)
      out.push_back(data.name(i).substr(path().size() + 1));
    return out;
  }
};

}  // namespace

TEST_CASE("image_folder: classes and files in torchvision's order") {
  const image_files files;
  // sorted(os.walk(...)) compares whole paths, and - comes before /; upper case before lower.
  for (const char* const name :
       {"b/2.jpg", "b/10.JPG", "b/z/1.jpeg", "b/z-1/1.png", "b/z/y.jpg/3.jpg", "B/1.Png",
        "LICENSE.txt", "1.jpg", "b/notes.txt", "\xc3\xa9/1.jpg", "z/1.jpg", "b/.hidden.jpg"})
    files.put(concat("train/", name), to_bytes(name));
  CHECK(files.names() == std::vector<std::string>{"B/1.Png", "b/.hidden.jpg", "b/10.JPG", "b/2.jpg",
                                                  "b/z/1.jpeg", "b/z-1/1.png", "b/z/y.jpg/3.jpg",
                                                  "z/1.jpg", "\xc3\xa9/1.jpg"});
  const image_folder data(files.path());
  CHECK(data.class_names() == std::vector<std::string>{"B", "b", "z", "\xc3\xa9"});
  file_bytes file;
  CHECK(data.read(2, file) == 1);
  CHECK(file == to_bytes("b/10.JPG"));
  CHECK(data.read(8, file) == 3);
  CHECK(data.label(8) == 3);
  CHECK_THROWS_AS((void)data.label(9), usage_error);
  CHECK_THROWS_AS(data.read(9, file), usage_error);
  CHECK_THROWS_AS((void)data.name(9), usage_error);
  CHECK(encoded_dataset_laws(data) == "");
  CHECK(data.describe().ends_with(
      "; passed over: 2: files beside the classes (the first: 1.jpg); 1: files .txt (" +
      files.path() + "/b/notes.txt)"));
}

TEST_CASE("image_folder: symbolic links are followed, but not to where they are") {
  const image_files files;
  files.put("train/a/1.jpg");
  files.put("elsewhere/2.jpg");
  std::filesystem::create_directory_symlink(files.f.file("elsewhere"), files.f.file("train/b"));
  std::filesystem::create_symlink(files.f.file("elsewhere/2.jpg"), files.f.file("train/a/3.jpg"));
  CHECK(files.names() == std::vector<std::string>{"a/1.jpg", "a/3.jpg", "b/2.jpg"});
  std::filesystem::create_directory_symlink(files.path(), files.f.file("train/a/loop"));
  CHECK(contains_all(files.refusal(),
                     {"train/a/loop/a: a symbolic link to a folder that contains it"}));
  std::filesystem::remove(files.f.file("train/a/loop"));
  std::filesystem::create_symlink("nothing", files.f.file("train/a/4.jpg"));
  CHECK(
      contains_all(files.refusal(), {"cannot read ", "train/a/4.jpg", "symbolic link to nothing"}));
}

TEST_CASE("image_folder: what cannot be a data set is refused when it is opened") {
  const image_files files;
  CHECK(contains_all(files.refusal(), {"cannot read ", "/train: ", "check the path"}));
  files.put("train/1.jpg");
  CHECK(contains_all(files.refusal(), {"/train: no folders, each of which would be a class"}));
  files.put("train/a/1.jpg");
  files.put("train/b/1.txt");
  std::filesystem::create_directories(files.f.file("train/c.jpg/d.jpg"));
  CHECK(contains_all(files.refusal(), {"no image (.jpg, .jpeg, .png) for the classes b, c.jpg;"}));
  files.put("train/b/1.jpg");
  files.put("train/c.jpg/d.jpg/1.jpg");
  CHECK(files.names() == std::vector<std::string>{"a/1.jpg", "b/1.jpg", "c.jpg/d.jpg/1.jpg"});
  REQUIRE(::mkfifo(files.f.file("train/a/2.jpg").c_str(), 0600) == 0);
  CHECK(contains_all(files.refusal(), {"train/a/2.jpg: it is a pipe, a socket or a device"}));
}

TEST_CASE("image_folder: formats that are not decoded are refused, or left out and named") {
  const image_files files;
  files.put("train/a/1.jpg");
  files.put("train/a/2.TIFF");
  files.put("train/a/3.webp");
  CHECK(contains_all(files.refusal(), {"train/a/2.TIFF: this format is not decoded"}));
  const image_folder data(files.path(), {.other_formats = broken_image::skip});
  CHECK(data.size() == 1);
  CHECK(contains_all(data.describe(),
                     {"1 image files in 1 classes", "2 files of other formats", "train/a/2.TIFF"}));
}

namespace {

/// Whether a part of every `step`-th photograph is the crop of its whole decode.
void check_photographs(const image_folder& data, std::size_t step) {
  detail::images::decoder d;
  detail::core::pod_vector<std::uint8_t> rgb;
  file_bytes file;
  for (std::size_t i = 0; i < data.size(); i += step) {
    CHECK(data.read(i, file) == data.label(i));
    for (const int scale : {1, 2}) {
      const decoded whole = decode_whole(file, scale);
      CHECK(detail::images::reduced(d.size(file, data.name(i)), scale) == whole.size);
      const region r{whole.size.width / 3, whole.size.height / 4, whole.size.width / 2,
                     whole.size.height / 2};
      d.decode(file, data.name(i), r, scale, rgb);
      CHECK(file_bytes(rgb.begin(), rgb.end()) == crop(whole, r));
    }
  }
}

}  // namespace

TEST_CASE("image_folder: photographs decode, in whole and in part") {
  const image_folder data(CORDEE_SOURCE_DIR "/tests/images/photographs");
  CHECK(data.size() == 10);
  CHECK(data.class_names() ==
        std::vector<std::string>{"daisy", "dandelion", "roses", "sunflowers", "tulips"});
  check_photographs(data, 1);
}

TEST_CASE("image_folder: photographs of the user's own decode") {
  const char* const path = std::getenv("CORDEE_PHOTOGRAPHS");
  if (path == nullptr)
    return support::skip("CORDEE_PHOTOGRAPHS names no folder with a folder of images per class");
  check_photographs(image_folder(path), 9);
}

TEST_CASE("image_folder: split opens no file") {
  const image_files files;
  for (int i = 0; i < 20; ++i) files.put(concat("train/", i % 2 == 0 ? "a/" : "b/", i, ".jpg"));
  const image_folder data(files.path());
  std::filesystem::remove_all(files.path());
  const auto parts = split(decoded_images{data, resize_center_crop{8, 8}}, 0.2, 1);
  CHECK(parts.training.size() == 16);
  CHECK(parts.validation.label(3) == 1);
}
