// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/data/cutout.hpp>

#include "tests/support/noise.hpp"
#include "tests/support/torchvision_goldens.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("cutout is torchvision's erase of the square that is drawn, and every center occurs") {
  const auto image = planar(noise(5, 4));
  const cutout cut{.size = 3, .fill = {7, 7, 7, 7}};
  std::set<std::pair<std::uint32_t, std::uint32_t>> centers;
  for (std::uint64_t i = 0; i < 400; ++i) {
    random_sequence random(1, purpose::augmentation, 0, i);
    std::vector<std::uint8_t> out(image.size(), 77);
    cut({3, 4, 5}, image, out, random);
    const std::uint32_t y = random.below(4), x = random.below(5);
    CHECK(fnv(out) == cutout_goldens[y][x]);
    centers.emplace(y, x);
  }
  CHECK(centers.size() == 20);  // one is missed with probability 20 (19/20)^400 < 1e-7
}

TEST_CASE("cutout of an even size covers as many pixels, of each channel's level") {
  const extent e{2, 9, 9};
  const std::vector<std::uint8_t> image(e.size(), 200);
  int largest = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    std::vector<std::uint8_t> out(image.size());
    cutout{.size = 4, .fill = {1, 2}}(e, image, out, {1, purpose::augmentation, 0, i});
    int first = 0, second = 0;
    for (std::size_t k = 0; k < 81; ++k) {
      first += out[k] == 1;
      second += out[81 + k] == 2;
      CHECK((out[k] == 1 || out[k] == 200));
    }
    CHECK(first == second);
    CHECK(first >= 4);  // of a center in the corner
    largest = std::max(largest, first);
  }
  CHECK(largest == 16);
  CHECK_FALSE(cutout{0}.active());
}
