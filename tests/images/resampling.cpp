// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/images/resampling.hpp>

#include "tests/support/torchvision_goldens.hpp"

using namespace cordee;
using namespace support;

namespace {

random_sequence sequence(std::uint64_t i) { return {5, purpose::resampling, 0, i}; }

/// The largest distance of the samples' distribution from the uniform one on 0 .. 1.
double distance_from_uniform(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto n = static_cast<double>(samples.size());
  double largest = 0;
  for (std::size_t k = 0; k < samples.size(); ++k)
    largest = std::max({largest, std::abs(samples[k] - static_cast<double>(k) / n),
                        std::abs(samples[k] - static_cast<double>(k + 1) / n)});
  return largest;
}

}  // namespace

TEST_CASE("random_resized_crop: area and log aspect are uniform, positions too") {
  // No draw leaves this image: sides are at most sqrt(0.2 * 4 / 3) = 0.52 of its own.
  const random_resized_crop crop{.size = 32, .scale = {0.1, 0.2}};
  const image_size image{4000, 4000};
  std::vector<double> areas, aspects, lefts, tops;
  const std::uint64_t count = 4000;
  for (std::uint64_t i = 0; i < count; ++i) {
    const resampling_plan p = crop(image, sequence(i));
    REQUIRE(detail::images::lies_in(p.source, image));
    CHECK(p.resized == image_size{32, 32});
    CHECK(p.window == region{0, 0, 32, 32});
    const double w = p.source.width, h = p.source.height;
    areas.push_back((w * h / 16e6 - 0.1) / 0.1);
    aspects.push_back((std::log(w / h) - std::log(0.75)) / (std::log(4 / 3.0) - std::log(0.75)));
    lefts.push_back(p.source.left / (4000 - w));
    tops.push_back(p.source.top / (4000 - h));
  }
  // Kolmogorov and Smirnov: beyond 2.2 / sqrt(n) with probability 1e-4. Sides are rounded to a
  // pixel of more than 1000, which moves an area by a thousandth.
  const double bound = 2.2 / std::sqrt(static_cast<double>(count)) + 0.01;
  CHECK(distance_from_uniform(areas) < bound);
  CHECK(distance_from_uniform(aspects) < bound);
  CHECK(distance_from_uniform(lefts) < bound);
  CHECK(distance_from_uniform(tops) < bound);
}

TEST_CASE(
    "random_resized_crop: a plan is a function of the sequence, all of them lie in the image") {
  const random_resized_crop crop{};
  int differ = 0;
  for (const image_size image : {image_size{1, 1}, image_size{2, 500}, image_size{500, 375},
                                 image_size{65535, 1}, image_size{224, 224}})
    for (std::uint64_t i = 0; i < 200; ++i) {
      const resampling_plan p = crop(image, sequence(i));
      REQUIRE(detail::images::lies_in(p.source, image));
      CHECK(p == crop(image, sequence(i)));
      differ += p == crop(image, sequence(i + 1)) ? 0 : 1;
    }
  CHECK(differ == 400);  // all of the two images of which a draw fits
}

TEST_CASE("random_resized_crop: where no draw lies in the image, torchvision's central crop") {
  // Of all of the area: a draw lies in the image with the image's own aspect alone.
  const random_resized_crop crop{.scale = {1, 1}, .ratio = {0.75, 4.0 / 3}};
  for (const central_golden& g : central_goldens) {
    CAPTURE(g.source.width);
    CAPTURE(g.source.height);
    int central = 0;
    for (std::uint64_t i = 0; i < 40; ++i) central += crop(g.source, sequence(i)).source == g.box;
    // Where the aspect is far outside of the range, always; near it one draw in fifty may fit.
    const bool far = g.source.width > 2 * g.source.height || g.source.height > 2 * g.source.width;
    CHECK(central >= (far ? 40 : 20));
  }
}

TEST_CASE("resize_center_crop has torchvision's sides and offsets") {
  const resize_center_crop crop{256, 224};
  CHECK(crop({500, 375}) == resampling_plan{{0, 0, 500, 375}, {341, 256}, {58, 16, 224, 224}});
  CHECK(crop({375, 500}) == resampling_plan{{0, 0, 375, 500}, {256, 341}, {16, 58, 224, 224}});
  CHECK(crop({256, 256}).window == region{16, 16, 224, 224});
  // Offsets of a half go to the even pixel: (341 - 224) / 2 = 58.5, (257 - 224) / 2 = 16.5.
  CHECK(resize_center_crop{257, 224}({257, 300}).window == region{16, 38, 224, 224});
  CHECK(crop({1, 65535}).resized == image_size{256, 16776960});
  CHECK(crop({1, 268435455}).resized.height == 2147483647);
}

TEST_CASE("resampling refuses options without meaning") {
  const image_size image{10, 10};
  for (const random_resized_crop& wrong :
       {random_resized_crop{.size = 0}, random_resized_crop{.scale = {0, 1}},
        random_resized_crop{.scale = {0.5, 0.4}}, random_resized_crop{.scale = {0.5, 1.5}},
        random_resized_crop{.ratio = {2, 1}}, random_resized_crop{.ratio = {NAN, 1}}})
    CHECK_THROWS_AS(wrong(image, sequence(0)), usage_error);
  CHECK_THROWS_AS((resize_center_crop{.resize = 200, .crop = 224}(image)), usage_error);
  CHECK_THROWS_AS((resize_center_crop{.resize = 200, .crop = 0}(image)), usage_error);
}
