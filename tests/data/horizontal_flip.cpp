// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/data/horizontal_flip.hpp>

#include "tests/support/noise.hpp"
#include "tests/support/torchvision_goldens.hpp"

using namespace cordee;
using namespace support;

namespace {
std::vector<std::uint8_t> apply(const horizontal_flip& flip, const extent& e,
                                const std::vector<std::uint8_t>& in, std::uint64_t sample) {
  std::vector<std::uint8_t> out(in.size(), 77);
  flip(e, in, out, random_sequence(1, purpose::augmentation, 0, sample));
  return out;
}
}  // namespace

TEST_CASE("horizontal_flip mirrors each row, as torchvision does") {
  const auto image = planar(noise(5, 4));
  CHECK(fnv(apply({1}, {3, 4, 5}, image, 0)) == horizontal_flip_golden);
  for (const int width : {1, 2, 31, 32, 33, 64, 100}) {
    CAPTURE(width);
    const auto in = planar(noise(width, 3));
    const auto out = apply({1}, {3, 3, width}, in, 0);
    for (std::size_t k = 0, w = static_cast<std::size_t>(width); k < in.size(); ++k)
      REQUIRE(out[k] == in[k / w * w + w - 1 - k % w]);
    CHECK(apply({0}, {3, 3, width}, in, 0) == in);
  }
}

TEST_CASE("horizontal_flip flips with its probability") {
  const std::vector<std::uint8_t> image{1, 2};
  for (const double probability : {0.0, 0.25, 0.5, 1.0}) {
    int flips = 0;
    constexpr int count = 4000;
    for (std::uint64_t i = 0; i < count; ++i)
      flips += apply({probability}, {1, 1, 2}, image, i)[0] == 2;
    // Five standard deviations of the binomial distribution.
    CHECK(std::abs(flips - probability * count) <=
          5 * std::sqrt(count * probability * (1 - probability)));
  }
  CHECK_FALSE(horizontal_flip{0}.active());
  CHECK_THROWS_AS(apply({1.5}, {1, 1, 2}, image, 0), usage_error);
}
