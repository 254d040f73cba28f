// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Random crops and mirror images, as for CIFAR: pad with zeros all around, cut the image's size out
// somewhere, mirror every other one.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/random.hpp>

namespace cordee::inline CORDEE_ABI {

/// Makes another image of the same extent, a function of the image and of the random numbers alone.
/// The numbers belong to (seed, epoch, sample): neither ranks nor threads change what comes out. An
/// augmentation that is not `active` is not called.
template <class A>
concept Augmentation =
    std::copyable<A> && requires(const A a, const extent& e, std::span<const std::uint8_t> in,
                                 std::span<std::uint8_t> out, random_sequence random) {
      { a.active() } -> std::convertible_to<bool>;
      { a(e, in, out, random) };
    };

struct augment {
  int pad = 0;
  bool flip = false;

  [[nodiscard]] bool active() const { return pad != 0 || flip; }

  void operator()(const extent& e, std::span<const std::uint8_t> in, std::span<std::uint8_t> out,
                  random_sequence random) const {
    expects(pad >= 0, "augment: the padding is negative");
    expects(in.size() == e.size() && out.size() == e.size(),
            "augment: not an image of that extent");
    const auto places = static_cast<std::uint32_t>(2 * pad + 1);
    const int down = static_cast<int>(random.below(places)) - pad;
    const int right = static_cast<int>(random.below(places)) - pad;
    const bool mirror = flip && random.coin();

    std::memset(out.data(), 0, out.size());
    // The columns that the cut shares with the image; the others are padding.
    const int first = std::max(0, -right), last = std::min(e.width, e.width - right);
    const auto at = [&](int channel, int row, int column) {
      return (static_cast<std::size_t>(channel) * static_cast<std::size_t>(e.height) +
              static_cast<std::size_t>(row)) *
                 static_cast<std::size_t>(e.width) +
             static_cast<std::size_t>(column);
    };
    for (int c = 0; c < e.channels; ++c)
      for (int y = std::max(0, -down); y < std::min(e.height, e.height - down); ++y)
        if (first < last) {
          const std::uint8_t* const row = in.data() + at(c, y + down, first + right);
          if (mirror)
            std::reverse_copy(row, row + (last - first), out.data() + at(c, y, e.width - last));
          else
            std::copy(row, row + (last - first), out.data() + at(c, y, first));
        }
  }

  [[nodiscard]] std::string describe() const {
    if (!active()) return "no augmentation";
    return text(pad > 0 ? text("random crop after padding by ", pad) : std::string(),
                pad > 0 && flip ? ", " : "", flip ? "mirrored every other time" : "");
  }
};
static_assert(Augmentation<augment>);

}  // namespace cordee::inline CORDEE_ABI
