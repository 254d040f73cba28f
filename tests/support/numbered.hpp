// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Data whose pixels say which example they are, and a link that only knows its place.
#pragma once

#include <array>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/data/batching.hpp>
#include <cordee/data/dataset.hpp>
#include <cordee/device/cpu.hpp>

namespace support {

using namespace cordee;

/// Example i: its number in the first two bytes, labels in turn.
struct numbered {
  std::size_t count = 50;
  int labels = 7;
  std::size_t bad = ~std::size_t{0};  // reading this one fails

  extent image() const { return {1, 1, 2}; }
  int classes() const { return labels; }
  std::size_t size() const { return count; }
  int read(std::size_t i, std::span<std::uint8_t> pixels) const {
    if (i == bad) throw error(text("example ", i, " cannot be read"));
    pixels[0] = static_cast<std::uint8_t>(i & 0xff);
    pixels[1] = static_cast<std::uint8_t>(i >> 8);
    return static_cast<int>(i % static_cast<std::size_t>(labels));
  }
};
static_assert(Dataset<numbered>);

struct place_of {
  int mine = 0, all = 1;
  int rank() const { return mine; }
  int size() const { return all; }
};

/// The examples that an update of `numbered` holds; their labels are checked.
inline std::vector<int> samples_of(std::span<const batch<cpu>> micro) {
  std::vector<int> all;
  for (const batch<cpu>& b : micro) {
    REQUIRE(b.pixels.size == 2 * static_cast<std::size_t>(b.count));
    REQUIRE(b.labels.size == static_cast<std::size_t>(b.count));
    for (std::size_t i = 0; i < b.labels.size; ++i) {
      all.push_back(b.pixels[2 * i] + 256 * b.pixels[2 * i + 1]);
      CHECK(b.labels[i] == all.back() % 7);
    }
  }
  return all;
}

inline constexpr std::array link_sizes{1, 2, 3, 5, 8};
inline constexpr std::array tails{tail::drop, tail::pad, tail::carry};

}  // namespace support
