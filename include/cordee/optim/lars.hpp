// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// LARS: layer-wise adaptive rate scaling (You, Gitman, Ginsburg 2017), as published: rate and ratio
// inside the momentum.
//
//   ratio = trust |w| / (|g| + weight_decay |w| + epsilon)     per segment; 1 if |w| or |g| is 0
//   v <- momentum v + rate ratio (g + weight_decay w)
//   w <- w - v                                                 Nesterov: w <- w - (momentum v + …)
//
// The denominator is a sum of norms, not the norm of the sum. Segments whose kind is not in
// `adapts` take the whole rate (ratio 1); those not in `decays` are not decayed. Both are the
// weights alone by default: batch norm's scale and shift and every bias are left out, as in
// MLPerf's reference.
#pragma once

#include <cmath>
#include <string>

#include <cordee/core/text.hpp>
#include <cordee/ops/segmented.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

struct lars {
  static constexpr agreement needs = agreement::exact;
  static constexpr bool eager = true;
  static constexpr int slots = 1;
  static constexpr when norms = when::before_accept;

  double momentum = 0.9;
  double weight_decay = 1e-4;
  double trust = 0.001;
  double epsilon = 0;
  bool nesterov = false;
  kinds decays = kind::weight;
  kinds adapts = kind::weight;

  template <class Real, class D>
  span_on<Real, D> propose(const view<Real, D, slots>& v, const moment&, typename D::stream) const {
    return v.grads;
  }
  template <class Real, class D>
  void accept(const view<Real, D, slots>& v, const moment& now, typename D::stream s) const {
    const auto mu = static_cast<Real>(momentum);
    segmented_for(s, v.segments, [&](std::size_t k, std::size_t first, std::size_t last) {
      const auto decay = static_cast<Real>(decay_of(v, k));
      const auto rate = static_cast<Real>(now.rate * ratio_of(v, k));
      Real* w = v.weights.data;
      Real* u = v.slots[0].data;
      const Real* g = v.grads.data;
      const Real m = mu, on_v = nesterov ? mu : Real{1}, on_d = nesterov ? rate : Real{0};
      for (std::size_t i = first; i < last; ++i) {
        const Real d = g[i] + decay * w[i];
        u[i] = m * u[i] + rate * d;
        w[i] -= on_v * u[i] + on_d * d;
      }
    });
  }

  /// g <- ratio (g + weight_decay w)
  template <class Real, class D>
  void direct(const view<Real, D, slots>& v, const moment&, typename D::stream s) const {
    segmented_for(s, v.segments, [&](std::size_t k, std::size_t first, std::size_t last) {
      const auto decay = static_cast<Real>(decay_of(v, k)),
                 trusted = static_cast<Real>(ratio_of(v, k));
      const Real* w = v.weights.data;
      Real* g = v.grads.data;
      for (std::size_t i = first; i < last; ++i) g[i] = trusted * (g[i] + decay * w[i]);
    });
  }

  /// The trust ratio of a segment with these norms. A norm that is not finite belongs to a gradient
  /// that a mixing rule counts as zero on this rank.
  [[nodiscard]] double ratio(double weight_norm, double grad_norm, double decay) const {
    if (weight_norm == 0 || grad_norm == 0 || !std::isfinite(grad_norm)) return 1;
    return trust * weight_norm / (grad_norm + decay * weight_norm + epsilon);
  }

  [[nodiscard]] std::string describe() const {
    return text(
        "lars, trust ", trust, ", momentum ", momentum, nesterov ? " (Nesterov)" : "",
        ", weight decay ", weight_decay,
        ", rate and ratio inside the momentum; biases and batch norm neither decay nor adapt");
  }

 private:
  template <class View>
  [[nodiscard]] double decay_of(const View& v, std::size_t k) const {
    return decays(v.segments[k].what) ? weight_decay : 0;
  }
  template <class View>
  [[nodiscard]] double ratio_of(const View& v, std::size_t k) const {
    if (!adapts(v.segments[k].what)) return 1;
    return ratio(std::sqrt(v.weight_squares.data[k]), std::sqrt(v.grad_squares.data[k]),
                 decay_of(v, k));
  }
};

}  // namespace cordee::inline CORDEE_ABI
