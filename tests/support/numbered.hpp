// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A data set whose pixels encode the index of the example, and a communicator of rank and size
// alone.
#pragma once

#include <array>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/data/dataset.hpp>
#include <cordee/data/loader_options.hpp>
#include <cordee/device/cpu.hpp>

namespace support {

using namespace cordee;

/// Example i: its index in two bytes, label i mod labels.
struct numbered {
  std::size_t count = 50;
  int labels = 7;
  std::size_t unreadable = ~std::size_t{0};  // read throws for this index

  extent image() const { return {1, 1, 2}; }
  int classes() const { return labels; }
  std::size_t size() const { return count; }
  int read(std::size_t i, std::span<std::uint8_t> pixels) const {
    if (i == unreadable) throw error(concat("example ", i, " cannot be read"));
    pixels[0] = static_cast<std::uint8_t>(i & 0xff);
    pixels[1] = static_cast<std::uint8_t>(i >> 8);
    return static_cast<int>(i % static_cast<std::size_t>(labels));
  }
};
static_assert(Dataset<numbered>);

struct rank_stub {
  int index = 0, count = 1;
  int rank() const { return index; }
  int size() const { return count; }
};

/// The indices of the examples in an update of `numbered`, whose labels are checked.
inline std::vector<int> samples_of(std::span<const batch<cpu>> micro) {
  std::vector<int> samples;
  for (const batch<cpu>& b : micro) {
    REQUIRE(b.pixels.size == 2 * static_cast<std::size_t>(b.count));
    REQUIRE(b.labels.size == static_cast<std::size_t>(b.count));
    for (std::size_t i = 0; i < b.labels.size; ++i) {
      samples.push_back(b.pixels[2 * i] + 256 * b.pixels[2 * i + 1]);
      CHECK(b.labels[i] == samples.back() % 7);
    }
  }
  return samples;
}

inline constexpr std::array world_sizes{1, 2, 3, 5, 8};
inline constexpr std::array last_batch_modes{last_batch::drop, last_batch::pad, last_batch::carry};

}  // namespace support
