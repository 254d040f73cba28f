// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A generated, learnable data set of any size, which needs no files.
#pragma once

#include <array>
#include <cstdint>

#include <cordee/core/error.hpp>
#include <cordee/core/random.hpp>
#include <cordee/data/dataset.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::data {
/// An integer that is initialized like a member and called like a function: classes = 10,
/// classes().
struct count {
  int value;
  constexpr count(int n) : value(n) {}  // NOLINT: implicit, so that members are set by an int
  constexpr int operator()() const { return value; }
};
}  // namespace detail::data

/// Each class is a pattern of blocks, each example its class's pattern plus noise; example i
/// depends only on (seed, i).
struct synthetic {
  cordee::extent extent{1, 28, 28};  ///< Extent of the images.
  /// Number of classes. Range: 1 or more, else usage_error at the first read.
  detail::data::count classes = 10;
  std::size_t samples = 1000;  ///< Number of examples.
  std::uint64_t seed = 0;      ///< Seed of patterns and noise.

  [[nodiscard]] cordee::extent image() const { return extent; }  ///< `extent`.
  [[nodiscard]] std::size_t size() const { return samples; }     ///< `samples`.

  /// Example i has class i mod classes(). A pattern has 4 x 4 blocks with levels in 64 .. 191 in
  /// each channel; noise is uniform within 64 of them, so no single pixel determines the class.
  int read(std::size_t i, std::span<std::uint8_t> pixels) const {
    expects(i < samples, "synthetic: the index is beyond the data set");
    expects(pixels.size() == extent.size(), "synthetic: the buffer is not of the image's size");
    expects(classes() > 0, "synthetic: there must be at least one class");
    const auto label = static_cast<int>(i % static_cast<std::size_t>(classes()));
    random_sequence pattern(seed, purpose::synthetic, 0, static_cast<std::uint64_t>(label));
    random_sequence noise(seed, purpose::synthetic, 1, i);
    std::size_t pixel = 0;
    std::uint32_t bits = 0;
    for (int c = 0; c < extent.channels; ++c) {
      std::array<std::uint32_t, 16> levels{};
      for (std::uint32_t& level : levels) level = pattern.below(128);
      for (int y = 0; y < extent.height; ++y)
        for (int x = 0; x < extent.width; ++x, ++pixel) {
          bits = pixel % 4 == 0 ? noise.bits() : bits >> 8;  // four bytes of noise from one number
          const int block = 4 * y / extent.height * 4 + 4 * x / extent.width;
          pixels[pixel] = static_cast<std::uint8_t>(levels[static_cast<std::size_t>(block)] +
                                                    (bits & 127u));  // 64 + level - 64 + noise
        }
    }
    return label;
  }
};
static_assert(Dataset<synthetic>);

}  // namespace cordee::inline CORDEE_ABI
