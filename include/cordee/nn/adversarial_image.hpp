// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Steps of an attack on an image (the fast gradient sign method; Goodfellow et al., 2015):
//
//   x' <- clip(x' - step sign(g), x - epsilon, x + epsilon),  g = d loss / d x',  sign(0) = 0
//
// which makes a wrong class likelier where the loss is that of the wrong class. A negative step
// makes the right class less likely where it is that of the right one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/random.hpp>
#include <cordee/ops/layout.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

template <class Real>
constexpr Real attack_step(Real perturbed, Real gradient, Real x, Real epsilon, Real step) {
  const Real sign = static_cast<Real>((gradient > 0) - (gradient < 0));
  return std::clamp(perturbed - step * sign, x - epsilon, x + epsilon);
}

/// Writes `count` images, each number that of `from` plus a whole number of -epsilon .. epsilon,
/// within 0 .. 255: functions of (seed, step, first + n).
[[gnu::cold]] inline void add_uniform_noise(const extent& image, int count,
                                            const std::uint8_t* from, int epsilon,
                                            std::uint64_t seed, std::uint64_t step,
                                            std::int64_t first, std::uint8_t* to) {
  const std::size_t size = image.size();
  for (std::size_t n = 0; n < static_cast<std::size_t>(count); ++n) {
    random_sequence random =
        random_sequence(seed, purpose::adversary, step, static_cast<std::uint64_t>(first) + n)
            .subsequence(1);
    for (std::size_t i = n * size; i < (n + 1) * size; ++i) {
      const auto noise = static_cast<int>(random.below(2 * static_cast<unsigned>(epsilon) + 1));
      to[i] = static_cast<std::uint8_t>(std::clamp(from[i] + noise - epsilon, 0, 255));
    }
  }
}

/// A class other than each label, all alike in probability; a label that is none stays.
[[gnu::cold]] inline void draw_target_classes(int classes, std::span<const std::int32_t> labels,
                                              std::uint64_t seed, std::uint64_t step,
                                              std::int64_t first, std::int32_t* to) {
  for (std::size_t n = 0; n < labels.size(); ++n) {
    random_sequence random(seed, purpose::adversary, step, static_cast<std::uint64_t>(first) + n);
    const auto shift = static_cast<std::int32_t>(
        1 + random.below(static_cast<std::uint32_t>(classes > 1 ? classes - 1 : 1)));
    const bool is_class = labels[n] >= 0 && labels[n] < classes;
    to[n] = is_class ? (labels[n] + shift) % classes : labels[n];
  }
}

/// One step for bytes. `gradients`, (count, channels / block, height, width, block), of the images
/// `perturbed`; `images` are the ones before the attack, both (count, channels, height, width).
template <int Block, class N>
void attack_bytes(const extent& image, int count, const N* gradients, const std::uint8_t* images,
                  int epsilon, int step, std::uint8_t* perturbed) {
  const std::size_t pixels = image.pixels(), stride = ops::sample_size(image, Block);
  for (std::size_t n = 0; n < static_cast<std::size_t>(count); ++n)
    for (std::size_t c = 0; c < static_cast<std::size_t>(image.channels); ++c) {
      const N* const g = gradients + n * stride + c / Block * pixels * Block + c % Block;
      const std::size_t row = n * image.size() + c * pixels;
      for (std::size_t p = 0; p < pixels; ++p) {
        const auto slope = static_cast<double>(precision::widened(g[p * Block]));
        const int sign = (slope > 0) - (slope < 0);
        const int x = attack_step<int>(perturbed[row + p], sign, images[row + p], epsilon, step);
        perturbed[row + p] = static_cast<std::uint8_t>(std::clamp(x, 0, 255));
      }
    }
}

}  // namespace cordee::inline CORDEE_ABI::detail::nn
