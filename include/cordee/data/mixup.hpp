// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Mixup (Zhang et al., ICLR 2018): the samples of an update are mixed in pairs, and so are their
// labels.
//
//   w ~ Beta(alpha, alpha), one for each update
//   a <- w a + (1 - w) b,  b <- w b + (1 - w) a,  target of a: w onehot(a) + (1 - w) onehot(b)
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/random.hpp>
#include <cordee/data/mixing.hpp>

namespace cordee::inline CORDEE_ABI {

/// Mixup: two samples are averaged with random weights.
struct mixup {
  /// Parameter of the Beta distribution; 0: samples are not mixed. Range: 0, or 0.01 to 1e6, else
  /// usage_error. Default: as the paper, for ImageNet.
  double alpha = 0.2;

  /// Whether samples are mixed. @throws usage_error for an alpha out of its range.
  [[nodiscard]] bool active() const { return detail::data::can_draw_beta(alpha); }

  /// Averages `a` and `b` in place, rounded to bytes, and returns w. @throws usage_error for
  /// buffers that do not have the image's size.
  float operator()(const extent& e, std::span<std::uint8_t> a, std::span<std::uint8_t> b,
                   random_sequence random) const {
    expects(a.size() == e.size() && b.size() == e.size(),
            "mixup: the buffers are not of the image's size");
    const auto weight = static_cast<float>(detail::data::draw_beta(alpha, random));
    for (std::size_t i = 0; i < a.size(); ++i) {
      const float x = a[i], y = b[i];
      a[i] = static_cast<std::uint8_t>(y + weight * (x - y) + 0.5F);  // rounded to a byte
      b[i] = static_cast<std::uint8_t>(x + weight * (y - x) + 0.5F);
    }
    return weight;
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return alpha != 0 ? concat("mixup of pairs, alpha ", alpha) : "samples are not mixed";
  }
};
static_assert(Mixing<mixup>);

}  // namespace cordee::inline CORDEE_ABI
