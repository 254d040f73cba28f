// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/data/loader.hpp>
#include <cordee/data/split.hpp>
#include <cordee/images/decoded_images.hpp>
#include <cordee/testing/dataset_laws.hpp>

#include "tests/images/encode.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/numbered.hpp"

using namespace cordee;
using namespace support;

namespace {

using image_bytes = std::vector<std::uint8_t>;

/// JPEGs and PNGs of several sizes in memory; `broken` ones are cut short.
struct photographs {
  std::size_t count = 12;
  std::vector<std::size_t> broken = {};

  static std::size_t width(std::size_t i) { return 40 + 17 * (i % 5); }
  static std::size_t height(std::size_t i) { return 60 + 11 * (i % 4); }
  int classes() const { return 5; }
  std::size_t size() const { return count; }
  std::string name(std::size_t i) const { return concat("photograph ", i); }
  int read(std::size_t i, std::vector<std::uint8_t>& file) const {
    const int w = static_cast<int>(width(i)), h = static_cast<int>(height(i));
    file = i % 4 == 3
               ? encode_png({.name = "rgb"}, w, h)
               : encode_jpeg({.name = "420", .luma = {2, 2}}, w, h, static_cast<unsigned>(i));
    for (const std::size_t b : broken)
      if (b == i) file.resize(file.size() / 2);
    return static_cast<int>(i % 5);
  }
};
static_assert(EncodedDataset<photographs>);

random_sequence sequence(std::size_t i) { return {4, purpose::resampling, 1, i}; }

template <class S>
image_bytes pixels_of(const S& set, std::size_t i, random_sequence random, int* label = nullptr) {
  image_bytes out(set.image().size());
  const int l = set.read(i, out, random);
  if (label != nullptr) *label = l;
  return out;
}

/// The plan carried out on the decode of the whole image, reduced by 1/scale.
image_bytes by_whole_decode(const photographs& files, std::size_t i, const resampling_plan& plan,
                            int scale = 1) {
  std::vector<std::uint8_t> file;
  files.read(i, file);
  detail::images::decoder decoder;
  const image_size size = detail::images::reduced(decoder.size(file, ""), scale);
  detail::core::pod_vector<std::uint8_t> rgb;
  decoder.decode(file, "", {0, 0, size.width, size.height}, scale, rgb);
  const region box = detail::images::scaled(plan.source, size, scale);
  image_bytes part;
  for (int y = box.top; y < box.top + box.height; ++y) {
    const auto* row = rgb.data() + 3 * (y * size.width + box.left);
    part.insert(part.end(), row, row + 3 * box.width);
  }
  // All of the resized image, of which the window is cut.
  detail::images::resizer resizer;
  resizer.prepare({box.width, box.height}, plan.resized,
                  {0, 0, plan.resized.width, plan.resized.height});
  part.resize(part.size() + detail::images::resizer::slack);
  image_bytes whole(static_cast<std::size_t>(3 * plan.resized.width * plan.resized.height)), out;
  resizer.resize(part, whole);
  const auto& w = plan.window;
  for (int c = 0; c < 3; ++c)
    for (int y = w.top; y < w.top + w.height; ++y)
      for (int x = w.left; x < w.left + w.width; ++x)
        out.push_back(whole[static_cast<std::size_t>(
            (c * plan.resized.height + y) * plan.resized.width + x)]);
  return out;
}

}  // namespace

TEST_CASE("decoded_images: class names of the encoded images are those of a part of them") {
  struct named : photographs {
    [[nodiscard]] std::vector<std::string> class_names() const { return {"a", "b", "c", "d", "e"}; }
  };
  const decoded_images all{named{}, resize_center_crop{32, 28}};
  CHECK(all.class_names() == named{}.class_names());
  CHECK(detail::data::subset(all, {3, 1}).class_names() == named{}.class_names());
  CHECK(decoded_images{photographs{}}.class_names().empty());
}

TEST_CASE("decoded_images is a data set, with either policy") {
  CHECK(dataset_laws(decoded_images{photographs{}, random_resized_crop{.size = 24}}) == "");
  CHECK(dataset_laws(decoded_images{photographs{}, resize_center_crop{32, 28}}) == "");
  CHECK(dataset_laws(decoded_images{photographs{.broken = {3, 4, 11}},
                                    resize_center_crop{32, 28},
                                    {.broken = broken_image::skip, .scaled_decoding = true}}) ==
        "");
}

TEST_CASE("what is decoded in part is the plan carried out on the whole decode, bit for bit") {
  const photographs files;
  const random_resized_crop crop{.size = 24};
  const resize_center_crop center{32, 28};
  const decoded_images random{files, crop};
  const decoded_images fixed{files, center};
  for (std::size_t i = 0; i < files.size(); ++i) {
    CAPTURE(i);
    const image_size size{static_cast<int>(files.width(i)), static_cast<int>(files.height(i))};
    for (std::size_t k = 0; k < 10; ++k)
      CHECK(pixels_of(random, i, sequence(k)) ==
            by_whole_decode(files, i, crop(size, sequence(k))));
    CHECK(pixels_of(fixed, i, sequence(0)) == by_whole_decode(files, i, center(size)));
    image_bytes plain(random.image().size());
    random.read(i, plain);
    CHECK(plain == pixels_of(random, i, {0, purpose::resampling, 0, i}));
  }
}

TEST_CASE("a broken image is refused by its name, or replaced by the next one and recorded once") {
  const photographs files{.broken = {3, 4, 11}};
  const resize_center_crop center{32, 28};
  const decoded_images refusing{files, center};
  CHECK(contains_all(message_of<sample_error>([&] { pixels_of(refusing, 4, sequence(0)); }),
                     {"photograph 4"}));
  const decoded_images skipping{files, center, {.broken = broken_image::skip}};
  const auto copy = skipping;
  for (int round = 0; round < 2; ++round)
    for (std::size_t i = 0; i < files.size(); ++i) {
      const std::size_t readable = i == 3 || i == 4 ? 5 : i == 11 ? 0 : i;
      int label = -1;
      CHECK(pixels_of(skipping, i, sequence(i), &label) == pixels_of(copy, readable, sequence(i)));
      CHECK(label == static_cast<int>(readable % 5));
    }
  const auto broken = copy.broken();
  REQUIRE(broken.size() == 3);
  for (const std::size_t i : files.broken)
    CHECK(contains_all(broken.at(i), {concat("photograph ", i)}));
  CHECK(contains_all(copy.describe_broken(),
                     {"3 broken images were replaced by the next: 2: damaged or unsupported PNG: ",
                      " (the first: photograph 3); 1: it is truncated: ", " (photograph 4)"}));
  CHECK(refusing.describe_broken().empty());
  CHECK(skipping.label(4) == 4);
  const decoded_images none{
      photographs{.count = 2, .broken = {0, 1}}, center, {.broken = broken_image::skip}};
  CHECK(contains_all(message_of<error>([&] { pixels_of(none, 0, sequence(0)); }),
                     {"no image of the data set can be decoded"}));
}

TEST_CASE("scaled decoding: as small as is still larger than the sample, for JPEGs alone") {
  using detail::images::scale_of;
  const region window{0, 0, 10, 10};
  CHECK(scale_of({{0, 0, 19, 40}, {10, 10}, window}) == 1);
  CHECK(scale_of({{0, 0, 20, 40}, {10, 10}, window}) == 2);
  CHECK(scale_of({{0, 0, 79, 80}, {10, 10}, window}) == 4);
  CHECK(scale_of({{0, 0, 800, 80}, {10, 10}, window}) == 8);

  // Edges go to the nearest pixel of the reduced image.
  for (const int scale : {2, 4, 8})
    for (int left = 0; left < 40; ++left)
      for (int width = 60; width < 80; ++width) {
        const region r = detail::images::scaled(
            {left, 0, width, 90}, detail::images::reduced({left + width, 90}, scale), scale);
        CHECK(2 * std::abs(r.left * scale - left) <= scale);
        CHECK(2 * std::abs((r.left + r.width) * scale - left - width) <= scale);
      }

  const photographs files;
  const random_resized_crop crop{.size = 10};
  const decoded_images whole{files, crop};
  const decoded_images scaled{files, crop, {.scaled_decoding = true}};
  int reduced = 0;
  for (std::size_t i = 0; i < files.size(); ++i)
    for (std::size_t k = 0; k < 10; ++k) {
      CAPTURE(i);
      const resampling_plan plan =
          crop({static_cast<int>(files.width(i)), static_cast<int>(files.height(i))}, sequence(k));
      const int scale = i % 4 == 3 ? 1 : scale_of(plan);  // every fourth is a PNG
      const image_bytes pixels = pixels_of(scaled, i, sequence(k));
      CHECK(pixels == by_whole_decode(files, i, plan, scale));
      CHECK((scale > 1 || pixels == pixels_of(whole, i, sequence(k))));
      reduced += scale > 1;
    }
  CHECK(reduced > 20);
}

TEST_CASE(
    "a loader of decoded images: the same bytes for any threads and ranks, and seconds of stages") {
  const decoded_images data{photographs{}, random_resized_crop{.size = 16}};
  std::vector<image_bytes> seen;
  for (const int threads : {1, 3})
    for (const int ranks : {1, 2}) {
      image_bytes update;
      for (int r = 0; r < ranks; ++r) {
        loader feed{
            data, rank_stub{r, ranks}, {.global_batch = 8, .seed = 2, .decode_threads = threads}};
        feed.seek(5);
        for (const auto& b : feed.next())
          update.insert(update.end(), b.pixels.begin(), b.pixels.end());
        const input_statistics s = feed.statistics();
        CHECK(s.threads == threads);
        CHECK(s.reading.decode > 0);
        CHECK(s.reading.resample > 0);
      }
      seen.push_back(update);
    }
  for (const image_bytes& update : seen) CHECK(update == seen[0]);
}

TEST_CASE("decoded_images refuses wrong options at once, and images too elongated by their name") {
  CHECK_THROWS_AS((decoded_images{photographs{}, random_resized_crop{.size = 0}}), usage_error);
  CHECK_THROWS_AS((decoded_images{photographs{}, resize_center_crop{10, 20}}), usage_error);
  struct ribbon : photographs {
    int read(std::size_t, std::vector<std::uint8_t>& file) const {
      file = encode_jpeg({.name = "444"}, 1, 5000);
      return 0;
    }
  };
  const decoded_images ribbons{ribbon{}, resize_center_crop{256, 224}};
  CHECK(contains_all(message_of<sample_error>([&] { pixels_of(ribbons, 2, sequence(0)); }),
                     {"photograph 2", "1 x 5000"}));
}
