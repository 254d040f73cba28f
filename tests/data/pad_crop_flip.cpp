// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/data/pad_crop_flip.hpp>

#include "tests/support/noise.hpp"
#include "tests/support/torchvision_goldens.hpp"

using namespace cordee;

namespace {

using image = std::vector<std::uint8_t>;

image ramp(const extent& e) {  // 1, 2, 3, …: no pixel equals padding
  image x(e.size());
  std::iota(x.begin(), x.end(), std::uint8_t{1});
  return x;
}

image apply(const pad_crop_flip& a, const extent& e, const image& in, std::uint64_t sample) {
  image out(in.size(), 77);
  a(e, in, out, random_sequence(1, purpose::augmentation, 0, sample));
  return out;
}

// The reference: the crop at (down, right), then flipped or not.
image crop(const extent& e, const image& in, int down, int right, bool flipped) {
  image out(in.size(), 0);
  for (int c = 0; c < e.channels; ++c)
    for (int y = 0; y < e.height; ++y)
      for (int x = 0; x < e.width; ++x) {
        const int from_y = y + down, from_x = (flipped ? e.width - 1 - x : x) + right;
        if (from_y < 0 || from_y >= e.height || from_x < 0 || from_x >= e.width) continue;
        out[static_cast<std::size_t>((c * e.height + y) * e.width + x)] =
            in[static_cast<std::size_t>((c * e.height + from_y) * e.width + from_x)];
      }
  return out;
}

}  // namespace

TEST_CASE("pad_crop_flip: the results are exactly the crops of the padded image, flipped or not") {
  for (const extent e : {extent{1, 4, 4}, extent{3, 3, 5}, extent{2, 1, 1}})
    for (const int pad : {0, 1, 2, 6})
      for (const bool flip : {false, true}) {
        CAPTURE(describe(e));
        CAPTURE(pad);
        CAPTURE(flip);
        const image in = ramp(e);
        std::set<image> possible, seen;
        for (int down = -pad; down <= pad; ++down)
          for (int right = -pad; right <= pad; ++right)
            for (const bool flipped : {false, true})
              if (flip || !flipped) possible.insert(crop(e, in, down, right, flipped));
        for (std::uint64_t sample = 0; sample < 4000; ++sample)
          seen.insert(apply({.pad = pad, .flip = flip}, e, in, sample));
        CHECK(seen == possible);
      }
}

TEST_CASE("pad_crop_flip: without padding and flip it is not active and changes nothing") {
  const extent e{3, 4, 4};
  CHECK_FALSE(pad_crop_flip{}.active());
  CHECK(apply({}, e, ramp(e), 0) == ramp(e));
  CHECK(pad_crop_flip{.pad = 1}.active());
  CHECK(pad_crop_flip{.flip = true}.active());
}

TEST_CASE("pad_crop_flip: a function of the image and the random sequence alone") {
  const extent e{1, 8, 8};
  const pad_crop_flip a{.pad = 3, .flip = true};
  for (std::uint64_t sample = 0; sample < 20; ++sample)
    CHECK(apply(a, e, ramp(e), sample) == apply(a, e, ramp(e), sample));
}

TEST_CASE("pad_crop_flip: the largest padding leaves an image, a larger one is refused") {
  const extent e{1, 2, 2};
  CHECK(apply({.pad = 1 << 15}, e, ramp(e), 0).size() == 4);
  for (const int pad : {(1 << 15) + 1, 1 << 30, std::numeric_limits<int>::max()})
    CHECK_THROWS_AS(apply({.pad = pad}, e, ramp(e), 0), usage_error);
}

TEST_CASE("pad_crop_flip refuses a negative padding and a buffer of another size") {
  const extent e{1, 2, 2};
  CHECK_THROWS_AS(apply({.pad = -1}, e, ramp(e), 0), usage_error);
  CHECK_THROWS_AS(apply({.pad = 1}, e, image(5), 0), usage_error);
}

TEST_CASE("pad_crop_flip describes itself") {
  CHECK(pad_crop_flip{}.describe() == "no augmentation");
  CHECK(pad_crop_flip{.pad = 4, .flip = true}.describe() ==
        "random crop after padding by 4, random horizontal flip");
}

TEST_CASE("pad_crop_flip is torchvision's pad, crop and horizontal flip") {
  const image in = support::planar(support::noise(5, 4));
  for (std::uint64_t i = 0; i < 300; ++i) {
    random_sequence random(1, purpose::augmentation, 0, i);
    const std::uint32_t down = random.below(5), right = random.below(5);
    const bool flipped = random.coin();
    const image out = apply({.pad = 2, .flip = true}, {3, 4, 5}, in, i);
    CHECK(support::fnv(out) == support::pad_crop_flip_goldens[down][right][flipped ? 1 : 0]);
  }
}
