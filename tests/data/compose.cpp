// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/data/compose.hpp>
#include <cordee/data/cutout.hpp>
#include <cordee/data/horizontal_flip.hpp>
#include <cordee/data/pad_crop_flip.hpp>

#include "tests/support/noise.hpp"

using namespace cordee;
using namespace support;

namespace {

using image = std::vector<std::uint8_t>;
const extent shape{3, 8, 7};

template <class A>
image apply(const A& a, const image& in, std::uint64_t sample) {
  image out(in.size(), 77);
  a(shape, in, out, random_sequence(3, purpose::augmentation, 2, sample));
  return out;
}

/// Appends its digit to each byte, base ten; notes what it draws.
struct digit {
  std::uint8_t value = 0;
  std::uint32_t* drawn = nullptr;
  bool active() const { return value != 0; }
  void operator()(const extent&, std::span<const std::uint8_t> in, std::span<std::uint8_t> out,
                  random_sequence random) const {
    if (drawn != nullptr) *drawn = random.bits();
    for (std::size_t k = 0; k < in.size(); ++k)
      out[k] = static_cast<std::uint8_t>(in[k] * 10 + value);
  }
};

}  // namespace

TEST_CASE(
    "compose applies its steps from left to right, and leaves out those that are not active") {
  const image zeros(shape.size(), 0);
  CHECK(apply(compose{digit{1}}, zeros, 0)[5] == 1);
  CHECK(apply(compose{digit{1}, digit{2}}, zeros, 0)[5] == 12);
  CHECK(apply(compose{digit{1}, digit{2}, digit{3}}, zeros, 0)[5] == 123);
  CHECK(apply(compose{digit{1}, digit{0}, digit{3}}, zeros, 0)[5] == 13);
  CHECK(apply(compose{compose{digit{1}, digit{2}}, digit{3}}, zeros, 0)[5] == 123);
  CHECK(apply(compose{digit{0}}, zeros, 0) == zeros);
  CHECK_FALSE(compose{digit{0}, pad_crop_flip{}}.active());
  CHECK(compose{digit{0}, digit{1}}.active());
}

TEST_CASE("compose: one more augmentation of another kind does not change what the others draw") {
  const image in = planar(noise(7, 8));
  const cutout cut{.size = 3};
  int flips = 0, differ = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    const image flipped = apply(compose{horizontal_flip{}}, in, i);
    flips += flipped != in;
    // The cutout of the flipped image: the same square, whether the flip is before it or not.
    const image cut_alone = apply(compose{cut}, in, i),
                both = apply(compose{horizontal_flip{}, cut}, in, i),
                padded = apply(compose{pad_crop_flip{.pad = 2}, cut}, image(in.size(), 9), i),
                plain = apply(compose{cut}, image(in.size(), 9), i);
    for (std::size_t k = 0; k < in.size(); ++k) {
      // Noise has few zeros, so a square that moves is seen.
      if (plain[k] == 0) CHECK(padded[k] == 0);
      if (cut_alone[k] != in[k]) CHECK(both[k] == 0);
      if (both[k] != 0) CHECK(both[k] == flipped[k]);
    }
    std::uint32_t first = 0, second = 0;
    apply(compose{digit{1, &first}, horizontal_flip{}, digit{1, &second}}, in, i);
    differ += first != second;
  }
  CHECK(flips > 20);
  CHECK(flips < 80);
  CHECK(differ == 100);  // two of one kind do not draw the same
}

TEST_CASE("compose describes its steps in order") {
  CHECK(compose{horizontal_flip{}, cutout{4}}.describe() ==
        "random horizontal flip, probability 0.5, then cutout of 4 x 4");
  CHECK(compose{cutout{0}}.describe() == "no augmentation");
}
