// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/data/augment.hpp>

using namespace cordee;

namespace {

using image = std::vector<std::uint8_t>;

image ramp(const extent& e) {  // 1, 2, 3, … so that no pixel looks like padding
  image x(e.size());
  std::iota(x.begin(), x.end(), std::uint8_t{1});
  return x;
}

image apply(const augment& a, const extent& e, const image& in, std::uint64_t sample) {
  image out(in.size(), 77);
  a(e, in, out, random_sequence(1, purpose::augment, 0, sample));
  return out;
}

// The image moved by (down, right) under the frame, mirrored afterwards or not: the obvious way.
image cut(const extent& e, const image& in, int down, int right, bool mirror) {
  image out(in.size(), 0);
  for (int c = 0; c < e.channels; ++c)
    for (int y = 0; y < e.height; ++y)
      for (int x = 0; x < e.width; ++x) {
        const int from_y = y + down, from_x = (mirror ? e.width - 1 - x : x) + right;
        if (from_y < 0 || from_y >= e.height || from_x < 0 || from_x >= e.width) continue;
        out[static_cast<std::size_t>((c * e.height + y) * e.width + x)] =
            in[static_cast<std::size_t>((c * e.height + from_y) * e.width + from_x)];
      }
  return out;
}

}  // namespace

TEST_CASE("augment: what comes out is one of the cuts of the padded image, and all of them come") {
  for (const extent e : {extent{1, 4, 4}, extent{3, 3, 5}, extent{2, 1, 1}})
    for (const int pad : {0, 1, 2, 6})
      for (const bool flip : {false, true}) {
        CAPTURE(to_text(e));
        CAPTURE(pad);
        CAPTURE(flip);
        const image in = ramp(e);
        std::set<image> possible, seen;
        for (int down = -pad; down <= pad; ++down)
          for (int right = -pad; right <= pad; ++right)
            for (const bool mirror : {false, true})
              if (flip || !mirror) possible.insert(cut(e, in, down, right, mirror));
        for (std::uint64_t sample = 0; sample < 4000; ++sample)
          seen.insert(apply({.pad = pad, .flip = flip}, e, in, sample));
        CHECK(seen == possible);
      }
}

TEST_CASE("augment: without padding and mirror it is not active and changes nothing") {
  const extent e{3, 4, 4};
  CHECK_FALSE(augment{}.active());
  CHECK(apply({}, e, ramp(e), 0) == ramp(e));
  CHECK(augment{.pad = 1}.active());
  CHECK(augment{.flip = true}.active());
}

TEST_CASE("augment: a function of image and key alone") {
  const extent e{1, 8, 8};
  const augment a{.pad = 3, .flip = true};
  for (std::uint64_t sample = 0; sample < 20; ++sample)
    CHECK(apply(a, e, ramp(e), sample) == apply(a, e, ramp(e), sample));
}

TEST_CASE("augment: refuses a negative padding and room of another size") {
  const extent e{1, 2, 2};
  CHECK_THROWS_AS(apply({.pad = -1}, e, ramp(e), 0), misuse);
  CHECK_THROWS_AS(apply({.pad = 1}, e, image(5), 0), misuse);
}

TEST_CASE("augment: says what it does") {
  CHECK(augment{}.describe() == "no augmentation");
  CHECK(augment{.pad = 4, .flip = true}.describe() ==
        "random crop after padding by 4, mirrored every other time");
}
