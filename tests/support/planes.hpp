// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A rule by itself: planes of its own, filled norms, one accept after another.
#pragma once

#include <array>
#include <span>
#include <vector>

#include <cordee/ops/segmented.hpp>
#include <cordee/optim/optimizer.hpp>

namespace support {

using namespace cordee;

inline constexpr std::array<segment, 4> four_kinds{
    segment{"w", kind::weight, 0, 3}, segment{"gamma", kind::scale, 64, 2},
    segment{"beta", kind::shift, 128, 2}, segment{"bias", kind::bias, 192, 1}};

template <class O, class Real = double>
struct planes_of {
  O rule;
  std::vector<Real> weights = std::vector<Real>(256), grads = weights, slot = weights;
  moment now{};

  /// What the rule says of the gradient that stands in `grads`, written over it.
  void propose(double rate) {
    now.rate = rate;
    seen([&](auto& v) { rule.propose(v, now, cpu::stream{}); });
  }
  /// One step on what stands in `grads`.
  void step(double rate) {
    now.rate = rate;
    seen([&](auto& v) { rule.accept(v, now, cpu::stream{}); });
    ++now.step;
    ++now.applied;
    now.previous_rate = rate;
  }
  template <class F>
  void seen(const F& f) {
    std::array<double, 4> weight_squares{}, grad_squares{}, sums{};
    const std::span<const segment> table = four_kinds;
    segmented_squares<Real>(cpu::stream{}, table, on(weights), {weight_squares.data(), 4});
    segmented_squares<Real>(cpu::stream{}, table, on(grads), {grad_squares.data(), 4});
    view<Real, cpu, O::slots> v{on(weights), on(grads), {on(slot)}, table};
    v.weight_squares = {weight_squares.data(), 4};
    v.grad_squares = {grad_squares.data(), 4};
    v.sums = {sums.data(), 4};
    f(v);
  }
  static span_on<Real, cpu> on(std::vector<Real>& x) { return {x.data(), x.size()}; }

  /// Numbers outside of every segment.
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
