// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Mixing the samples of an update in pairs, as mixup and cutmix do.
//
// Published programs choose partners by a random permutation of a rank's batch, or its reverse
// (timm). Here samples 2 j and 2 j + 1 of an update, which are in the epoch's random order, are
// partners: the mixed samples do not depend on the number of ranks. A rank whose slice cuts a pair
// makes both of its samples.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/random.hpp>
#include <cordee/data/prefetcher.hpp>

namespace cordee::inline CORDEE_ABI {

/// Mixes two augmented images in place, each with the other, and returns the weight of a sample's
/// own label. `random` is the update's, the same for all its pairs. A mixing that is not `active`
/// is not called; `active` throws usage_error for invalid options.
template <class M>
concept Mixing = std::copyable<M> && requires(const M m, const extent& e, std::span<std::uint8_t> a,
                                              std::span<std::uint8_t> b, random_sequence random) {
  { m.active() } -> std::convertible_to<bool>;
  { m(e, a, b, random) } -> std::convertible_to<float>;
};

namespace detail::data {

/// A number with density proportional to x^(alpha - 1) exp(-x) (Marsaglia, Tsang 2000). Requires
/// alpha > 0.
double draw_gamma(std::same_as<double> auto alpha, random_sequence& random) {
  if (alpha < 1)  // Gamma(alpha) = Gamma(alpha + 1) U^(1 / alpha)
    return draw_gamma(alpha + 1, random) * core::pow(1 - random.uniform(), 1 / alpha);
  const double d = alpha - 1.0 / 3, c = 1 / core::sqrt(9 * d);
  for (;;) {
    const double x = random.normal(), root = 1 + c * x, v = root * root * root;
    if (v > 0 && core::log1p(-random.uniform()) < x * x / 2 + d - d * v + d * core::log(v))
      return d * v;
  }
}

/// A number of Beta(alpha, alpha). Requires alpha > 0.
double draw_beta(std::same_as<double> auto alpha, random_sequence& random) {
  const double x = draw_gamma(alpha, random), y = draw_gamma(alpha, random);
  return x + y > 0 ? x / (x + y) : 0.5;  // both underflow for a tiny alpha alone
}

/// Whether alpha is not 0, for no mixing. Throws usage_error for one of which Beta(alpha, alpha)
/// cannot be drawn.
inline bool can_draw_beta(double alpha) {
  expects(alpha == 0 || (alpha >= 0.01 && alpha <= 1e6),
          "mixup, cutmix: alpha is outside 0.01 .. 1e6 (0: samples are not mixed)");
  return alpha != 0;
}

/// Samples first .. last - 1 of an update.
struct sample_range {
  std::int64_t first, last;
};
/// With the partners of those whose pair is cut. The last sample of an odd number has none.
constexpr sample_range whole_pairs(sample_range r, std::int64_t global_batch) {
  return {r.first - r.first % 2, std::min(r.last + r.last % 2, global_batch)};
}

/// Mixes the images of `u` in pairs and gives each sample its other label and weight. The first of
/// its samples is the first one of a pair.
template <Mixing M>
void mix_pairs(const M& mixing, const extent& e, const random_sequence& random, rank_update& u) {
  const std::size_t count = u.labels.size();
  u.other_labels.resize(count);
  u.label_weights.resize(count);
  const auto image = [&](std::size_t i) {
    return std::span<std::uint8_t>{u.pixels.data() + i * e.size(), e.size()};
  };
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t partner = std::min(i ^ 1, count - 1);  // itself, if it has none
    u.other_labels[i] = u.labels[partner];
    u.label_weights[i] = 1;
    if (partner < i) u.label_weights[i] = u.label_weights[partner];
    if (partner > i) u.label_weights[i] = mixing(e, image(i), image(partner), random);
  }
}

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

/// Not called, so that loaders which do not mix do not compile the other one.
inline void mix_pairs(const unmixed&, const extent&, const random_sequence&, rank_update&) {}

}  // namespace detail::data

}  // namespace cordee::inline CORDEE_ABI
