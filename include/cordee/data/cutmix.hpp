// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// CutMix (Yun et al., ICCV 2019): the samples of an update exchange a rectangle in pairs, and their
// labels are mixed by its area.
//
//   w ~ Beta(alpha, alpha),  half sides  floor(W sqrt(1 - w) / 2), floor(H sqrt(1 - w) / 2)
//   around a uniform pixel, clipped at the borders;  then  w = 1 - area / (W H)
//
// Partners: data/mixing.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/random.hpp>
#include <cordee/data/mixing.hpp>

namespace cordee::inline CORDEE_ABI {

/// CutMix: two samples exchange a rectangle.
struct cutmix {
  /// Parameter of the Beta distribution; 0: samples are not mixed. Range: 0, or 0.01 to 1e6, else
  /// usage_error. Default: as the paper.
  double alpha = 1;

  /// Whether samples are mixed. @throws usage_error for an alpha out of its range.
  [[nodiscard]] bool active() const { return detail::data::can_draw_beta(alpha); }

  /// Exchanges the rectangle between `a` and `b`, and returns the share of the image outside it.
  /// @throws usage_error for buffers that do not have the image's size.
  float operator()(const extent& e, std::span<std::uint8_t> a, std::span<std::uint8_t> b,
                   random_sequence random) const {
    expects(a.size() == e.size() && b.size() == e.size(),
            "cutmix: the buffers are not of the image's size");
    const double half = detail::core::sqrt(1 - detail::data::draw_beta(alpha, random)) / 2;
    const side_range columns = cut(e.width, half, random), rows = cut(e.height, half, random);
    for (int c = 0; c < e.channels; ++c)
      for (int y = rows.first; y < rows.last; ++y) {
        const std::size_t row = (static_cast<std::size_t>(c) * static_cast<std::size_t>(e.height) +
                                 static_cast<std::size_t>(y)) *
                                static_cast<std::size_t>(e.width);
        const auto first = row + static_cast<std::size_t>(columns.first),
                   last = row + static_cast<std::size_t>(columns.last);
        std::swap_ranges(a.data() + first, a.data() + last, b.data() + first);
      }
    const double area = static_cast<double>(columns.last - columns.first) *
                        static_cast<double>(rows.last - rows.first);
    return static_cast<float>(1 - area / static_cast<double>(e.pixels()));
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return alpha != 0 ? concat("cutmix of pairs, alpha ", alpha) : "samples are not mixed";
  }

 private:
  struct side_range {
    int first, last;
  };
  static side_range cut(int side, double half, random_sequence& random) {
    const int center = static_cast<int>(random.below(static_cast<std::uint32_t>(side)));
    const int reach = static_cast<int>(half * side);
    return {std::max(center - reach, 0), std::min(center + reach, side)};
  }
};
static_assert(Mixing<cutmix>);

}  // namespace cordee::inline CORDEE_ABI
