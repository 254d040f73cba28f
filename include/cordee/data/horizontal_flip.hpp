// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/random.hpp>
#include <cordee/data/augmentation.hpp>

namespace cordee::inline CORDEE_ABI {

/// Mirrors an image left to right with some probability.
struct horizontal_flip {
  /// Probability that an image is mirrored; 0: inactive. Range: 0 to 1, else usage_error.
  double probability = 0.5;

  static constexpr std::uint32_t subsequence = 1;  ///< Its draws in compose.

  /// Whether the probability is not 0.
  [[nodiscard]] bool active() const { return probability != 0; }

  /// See Augmentation. @throws usage_error for a probability out of its range, or buffers that do
  /// not have the image's size.
  void operator()(const extent& e, std::span<const std::uint8_t> in, std::span<std::uint8_t> out,
                  random_sequence random) const {
    expects(probability >= 0 && probability <= 1, "horizontal_flip: the probability is in 0 .. 1");
    expects(in.size() == e.size() && out.size() == e.size(),
            "horizontal_flip: the buffers are not of the image's size");
    if (!(random.uniform() < probability)) {
      std::copy(in.begin(), in.end(), out.begin());
      return;
    }
    const auto width = static_cast<std::size_t>(e.width);
    for (std::size_t row = 0; row < in.size(); row += width)
      reverse(in.data() + row, out.data() + row, width);
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("random horizontal flip, probability ", probability);
  }

 private:
  static void reverse(const std::uint8_t* in, std::uint8_t* out, std::size_t count) {
    constexpr std::size_t chunk = 32;  // of constant length, so that compilers vectorize it at -O2
    std::size_t at = 0;
    for (; at + chunk <= count; at += chunk) {
      std::uint8_t from[chunk], to[chunk];
      std::memcpy(from, in + count - at - chunk, chunk);
      for (std::size_t i = 0; i < chunk; ++i) to[i] = from[chunk - 1 - i];
      std::memcpy(out + at, to, chunk);
    }
    for (; at < count; ++at) out[at] = in[count - 1 - at];
  }
};
static_assert(Augmentation<horizontal_flip>);

}  // namespace cordee::inline CORDEE_ABI
