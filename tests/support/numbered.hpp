// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Data whose pixels say which example they are, and a link that only knows its place.
#pragma once

#include <cordee/data/dataset.hpp>

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

}  // namespace support
