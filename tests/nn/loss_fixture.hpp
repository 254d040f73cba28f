// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A loss on one sample and on a batch of noise.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/loss.hpp>
#include <cordee/testing/gradient.hpp>

namespace cordee::inline CORDEE_ABI {

struct evaluated_loss {
  double value;
  std::vector<double> gradient;
};

/// Of one sample, whose target is weight onehot(label) + (1 - weight) onehot(other).
template <Loss L>
evaluated_loss evaluate_loss(const L& loss, const std::vector<double>& z, std::int32_t label,
                             std::int32_t other, float weight) {
  std::vector<double> dz(z.size());
  const metrics m = detail::ops::batch_loss(loss, static_cast<int>(z.size()), 1, z.data(),
                                            {&label, &other, &weight}, 1, dz.data(), cpu::stream{});
  return {m.loss, dz};
}

/// Compares with numbers that PyTorch computed in float64: a few roundings of numbers of order 1.
inline void check_golden(const evaluated_loss& actual, double value,
                         const std::vector<double>& gradient) {
  CHECK(std::abs(actual.value - value) <= 1e-15 * std::max(1.0, std::abs(value)));
  for (std::size_t c = 0; c < gradient.size(); ++c)
    CHECK(std::abs(actual.gradient[c] - gradient[c]) <= 1e-15);
}

/// The gradient of a batch with hard and mixed targets against finite differences.
template <Loss L>
void check_derivative(const L& loss) {
  auto z = normal_numbers(4 * 7, 1);
  const std::vector<std::int32_t> labels{0, 6, 3, 3}, others{1, 6, 3, 5};
  const std::vector<float> weights{0.25F, 0.5F, 1.0F, 0.75F};
  const detail::ops::batch_targets targets{labels.data(), others.data(), weights.data()};
  const double loss_weight = 1.0 / 32;
  std::vector<double> dz(z.size());
  detail::ops::batch_loss(loss, 7, 4, z.data(), targets, loss_weight, dz.data(), cpu::stream{});
  const gradient_report report = check_gradient(z, dz, [&] {
    double* const no_gradient = nullptr;
    return loss_weight *
           detail::ops::batch_loss(loss, 7, 4, z.data(), targets, 1, no_gradient, cpu::stream{})
               .loss;
  });
  CHECK_MESSAGE(report.max_error < 1e-7, report.describe());
}

}  // namespace cordee::inline CORDEE_ABI
