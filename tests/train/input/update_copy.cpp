// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/train/input/update_copy.hpp>

using namespace cordee;

TEST_CASE("update_copy: keeps what the loader overwrites, of each micro-batch") {
  std::array<std::uint8_t, 6> pixels{1, 2, 3, 4, 5, 6};
  std::array<std::int32_t, 3> labels{7, 8, 9}, others{1, 2, 3};
  std::array<float, 3> weights{.25f, .5f, 1};
  std::array<batch<cpu>, 2> update{};
  update[0] = batch<cpu>{.pixels = {pixels.data(), 4}, .labels = {labels.data(), 2}, .count = 2};
  update[1] =
      batch<cpu>{.pixels = {pixels.data() + 4, 2}, .labels = {labels.data() + 2, 1}, .count = 1};
  update[1].other_labels = {others.data() + 2, 1};
  update[1].label_weights = {weights.data() + 2, 1};
  update[1].first_sample = 2;
  detail::train::update_copy copy;
  for (int k = 0; k < 2; ++k) {  // the second time in memory of the first
    const auto copies = copy.of(update);
    const auto before_pixels = pixels;
    const auto before_labels = labels;
    pixels.fill(0);
    labels.fill(0);
    REQUIRE(copies.size() == 2);
    CHECK(std::ranges::equal(copies[0].pixels, std::span(before_pixels).first(4)));
    CHECK(std::ranges::equal(copies[1].pixels, std::span(before_pixels).last(2)));
    CHECK(std::ranges::equal(copies[0].labels, std::span(before_labels).first(2)));
    CHECK(copies[1].labels[0] == before_labels[2]);
    CHECK(copies[0].other_labels.empty());
    CHECK(copies[1].other_labels[0] == 3);
    CHECK(copies[1].label_weights[0] == 1);
    CHECK(copies[1].first_sample == 2);
    CHECK(copies[0].count == 2);
    pixels = before_pixels;
    labels = before_labels;
    std::ranges::reverse(pixels);
  }
}
