// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Runs an optimizer without a trainer: planes, norms, and calls of propose and accept.
#pragma once

#include <array>
#include <span>
#include <vector>

#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/optimizer.hpp>

namespace support {

using namespace cordee;

inline constexpr std::array<segment, 4> four_kinds{
    segment{"w", kind::weight, 0, 3}, segment{"gamma", kind::scale, 64, 2},
    segment{"beta", kind::shift, 128, 2}, segment{"bias", kind::bias, 192, 1}};

template <class O, class Real = double>
struct planes_of {
  O optimizer;
  std::vector<Real> weights = std::vector<Real>(256), grads = weights, slot = weights,
                    second = weights;  // `second` where there are two slots
  step_info info{};

  /// Replaces the gradient in `grads` by the optimizer's proposal.
  void propose(double learning_rate) {
    info.learning_rate = learning_rate;
    with_view([&](auto& v) { cordee::detail::optim::proposal(optimizer, v, info, cpu::stream{}); });
  }
  /// One step with the gradient in `grads`.
  void step(double learning_rate) {
    info.learning_rate = learning_rate;
    with_view([&](auto& v) { optimizer.accept(v, info, cpu::stream{}); });
    ++info.step;
    ++info.applied;
    info.previous_learning_rate = learning_rate;
  }
  template <class F>
  void with_view(const F& f) {
    std::array<double, 4> squared_weight_norms{}, squared_grad_norms{}, sums{};
    const std::span<const segment> table = four_kinds;
    segmented_squares<Real>(cpu::stream{}, table, on(weights), {squared_weight_norms.data(), 4});
    segmented_squares<Real>(cpu::stream{}, table, on(grads), {squared_grad_norms.data(), 4});
    optimizer_view<Real, cpu, O::slots> v{on(weights), on(grads), {on(slot)}, table};
    if constexpr (O::slots > 1) v.slots[1] = on(second);
    v.squared_weight_norms = {squared_weight_norms.data(), 4};
    v.squared_grad_norms = {squared_grad_norms.data(), 4};
    v.sums = {sums.data(), 4};
    f(v);
  }
  static span_on<Real, cpu> on(std::vector<Real>& x) { return {x.data(), x.size()}; }

  /// Whether weights and slots are zero outside of every segment.
  [[nodiscard]] bool padding_is_zero() const {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      bool inside = false;
      for (const segment& s : four_kinds) inside = inside || (i >= s.offset && i < s.end());
      if (!inside && (weights[i] != 0 || slot[i] != 0)) return false;
    }
    return true;
  }
};

}  // namespace support
