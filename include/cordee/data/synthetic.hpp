// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A data set out of nothing: each class is a pattern of blocks, each example its pattern and noise.
//
// No files, any size, learnable; example i is a function of (seed, i) alone.
#pragma once

#include <array>
#include <cstdint>

#include <cordee/core/error.hpp>
#include <cordee/core/random.hpp>
#include <cordee/data/dataset.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {
/// A number that is set like a member and asked for like a data set's: classes = 10, classes().
struct count {
  int value;
  constexpr count(int n) : value(n) {}  // NOLINT: a count is a number
  constexpr int operator()() const { return value; }
};
}  // namespace detail

struct synthetic {
  cordee::extent extent{1, 28, 28};
  detail::count classes = 10;
  std::size_t samples = 1000;
  std::uint64_t seed = 0;

  [[nodiscard]] cordee::extent image() const { return extent; }
  [[nodiscard]] std::size_t size() const { return samples; }

  /// Classes take turns. A pattern has 4 x 4 blocks of a level between 64 and 191 in each channel;
  /// noise is uniform within 64 of it, so that no single pixel tells the class.
  int read(std::size_t i, std::span<std::uint8_t> pixels) const {
    expects(i < samples, "synthetic: there is no such example");
    expects(pixels.size() == extent.size(), "synthetic: the room is not that of one image");
    expects(classes() > 0, "synthetic: there must be at least one class");
    const auto label = static_cast<int>(i % static_cast<std::size_t>(classes()));
    random_sequence pattern(seed, purpose::synthetic, 0, static_cast<std::uint64_t>(label));
    random_sequence noise(seed, purpose::synthetic, 1, i);
    std::size_t at = 0;
    std::uint32_t bits = 0;
    for (int c = 0; c < extent.channels; ++c) {
      std::array<std::uint32_t, 16> levels{};
      for (std::uint32_t& level : levels) level = pattern.below(128);
      for (int y = 0; y < extent.height; ++y)
        for (int x = 0; x < extent.width; ++x, ++at) {
          bits = at % 4 == 0 ? noise.bits() : bits >> 8;  // four bytes of noise at a time
          const int block = 4 * y / extent.height * 4 + 4 * x / extent.width;
          pixels[at] = static_cast<std::uint8_t>(levels[static_cast<std::size_t>(block)] +
                                                 (bits & 127u));  // 64 + level - 64 + noise
        }
    }
    return label;
  }
};
static_assert(Dataset<synthetic>);

}  // namespace cordee::inline CORDEE_ABI
