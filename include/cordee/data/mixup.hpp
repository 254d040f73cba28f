// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Mixup (Zhang et al., ICLR 2018): the samples of an update are mixed in pairs, and so are their
// labels.
//
//   w ~ Beta(alpha, alpha), one for each update
//   a <- w a + (1 - w) b,  b <- w b + (1 - w) a,  target of a: w onehot(a) + (1 - w) onehot(b)
//
// Published programs take a random permutation of a rank's batch for the partners, or its reverse
// (timm). Here samples 2 j and 2 j + 1 of an update, which stand in the epoch's random order, are
// partners: the sequence of mixed samples does not depend on the number of ranks.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>

#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/random.hpp>

namespace cordee::inline CORDEE_ABI {

/// Mixes two augmented images in place, each with the other, and returns the weight of a sample's
/// own label. `random` is the update's, the same for all its pairs. A mixing that is not `active`
/// is not called.
template <class M>
concept Mixing = std::copyable<M> && requires(const M m, const extent& e, std::span<std::uint8_t> a,
                                              std::span<std::uint8_t> b, random_sequence random) {
  { m.active() } -> std::convertible_to<bool>;
  { m(e, a, b, random) } -> std::convertible_to<float>;
};

namespace detail::data {

/// A number with density proportional to x^(alpha - 1) exp(-x) (Marsaglia, Tsang 2000). Requires
/// alpha > 0.
inline double draw_gamma(double alpha, random_sequence& random) {
  if (alpha < 1)  // Gamma(alpha) = Gamma(alpha + 1) U^(1 / alpha)
    return draw_gamma(alpha + 1, random) * std::pow(1 - random.uniform(), 1 / alpha);
  const double d = alpha - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.normal(), root = 1 + c * x, v = root * root * root;
    if (v > 0 && std::log1p(-random.uniform()) < x * x / 2 + d - d * v + d * std::log(v))
      return d * v;
  }
}

/// A number of Beta(alpha, alpha). Requires alpha > 0.
inline double draw_beta(double alpha, random_sequence& random) {
  const double x = draw_gamma(alpha, random), y = draw_gamma(alpha, random);
  return x + y > 0 ? x / (x + y) : 0.5;  // both underflow for a tiny alpha alone
}

/// Throws usage_error unless Beta(alpha, alpha) can be drawn, or alpha is 0, for no mixing.
inline void expect_beta(double alpha) {
  expects(alpha >= 0.01 && alpha <= 1e6,
          "mixup, cutmix: alpha is outside 0.01 .. 1e6 (0: samples are not mixed)");
}

}  // namespace detail::data

/// Samples are not mixed.
struct unmixed {
  [[nodiscard]] static constexpr bool active() { return false; }
  float operator()(const extent&, std::span<std::uint8_t>, std::span<std::uint8_t>,
                   random_sequence) const {
    return 1;
  }
  [[nodiscard]] std::string describe() const { return "samples are not mixed"; }
};
static_assert(Mixing<unmixed>);

struct mixup {
  double alpha = 0.2;  // the paper's for ImageNet; 0: samples are not mixed

  [[nodiscard]] bool active() const { return alpha != 0; }

  float operator()(const extent& e, std::span<std::uint8_t> a, std::span<std::uint8_t> b,
                   random_sequence random) const {
    detail::data::expect_beta(alpha);
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

  [[nodiscard]] std::string describe() const {
    return active() ? concat("mixup of pairs, alpha ", alpha) : "samples are not mixed";
  }
};
static_assert(Mixing<mixup>);

}  // namespace cordee::inline CORDEE_ABI
