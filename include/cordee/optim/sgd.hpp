// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Stochastic gradient descent with momentum, in the two forms that are in use.
//
//   form P, `sgd`                             form C, `velocity_sgd`
//   d = g + weight_decay w                    d = g + weight_decay w
//   b <- momentum b + (1 - dampening) d       v <- momentum v + rate d
//   w <- w - rate b                           w <- w - v
//   Nesterov: w <- w - rate (d + momentum b)  Nesterov: w <- w - (momentum v + rate d)
//
// The rate stands outside the momentum in P (PyTorch; the first buffer is d, undamped) and inside
// it in C (Caffe2, TensorFlow). They agree while the rate is constant; under any rates when C
// carries the momentum correction of Goyal et al. 2017, remark 2.
#pragma once

#include <string>

#include <cordee/core/text.hpp>
#include <cordee/ops/segmented.hpp>
#include <cordee/optim/momentum.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

struct sgd_at {
  double dampening;
  template <class Real>
  CORDEE_HOST_DEVICE void operator()(decayed_move<Real>& step, const moment& now) const {
    step.move.gain = static_cast<Real>(now.applied == 0 ? 1 : 1 - dampening);
    step.move.rate = factor<Real>(now.rate);
  }
};
struct velocity_sgd_at {
  correction corrects;
  template <class Real>
  CORDEE_HOST_DEVICE void operator()(decayed_move<Real>& step, const moment& now) const {
    corrects(step.move.carry, now);
    step.move.gain = factor<Real>(now.rate);
  }
};

}  // namespace detail

/// Form P. Weight decay is L2, added to the gradient of the segments whose kind is in `decays`.
struct sgd {
  static constexpr agreement needs = agreement::exact;
  static constexpr bool eager = true;
  static constexpr int slots = 1;
  static constexpr when norms = when::never;
  static constexpr bool replays = true;

  double momentum = 0.9;
  double weight_decay = 0;
  double dampening = 0;
  bool nesterov = false;
  kinds decays = kind::weight;

  template <class Real, class D>
  span_on<Real, D> propose(const view<Real, D, slots>& v, const moment&, typename D::stream) const {
    return v.grads;
  }
  template <class Real, class D>
  void accept(const view<Real, D, slots>& v, const moment& now, typename D::stream s) const {
    check();
    const detail::decayed_move<Real> step(v, momentum, nesterov, weight_decay);
    segmented_for<Real>(s, v.segments,
                        detail::at_moment{detail::sgd_at{dampening}, moment_of(v, now),
                                          detail::decaying{decays, step}});
  }
  /// g <- g + weight_decay w
  template <class Real, class D>
  void direct(const view<Real, D, slots>& v, const moment&, typename D::stream s) const {
    const detail::decayed_gradient<Real> decayed{v.weights.data, v.grads.data,
                                                 detail::factor<Real>(weight_decay)};
    segmented_for<Real>(s, v.segments, detail::decaying{decays, decayed});
  }

  void check() const {
    detail::expects_memory("sgd", "momentum", momentum);
    detail::expects_not_negative("sgd", "weight_decay", weight_decay);
    detail::expects_memory("sgd", "dampening", dampening);
    expects(!nesterov || (momentum > 0 && dampening == 0),
            "sgd: Nesterov momentum needs momentum > 0 and no dampening");
  }
  [[nodiscard]] std::string describe() const {
    return text("sgd, momentum ", momentum, nesterov ? " (Nesterov)" : "", ", weight decay ",
                weight_decay, ", the rate outside the momentum");
  }
};

/// Form C. `correction` multiplies v by rate / previous rate before the step, so that a change of
/// the rate acts at once on the whole history; a previous rate of at most 1e-7 leaves v alone.
struct velocity_sgd {
  static constexpr agreement needs = agreement::exact;
  static constexpr bool eager = true;
  static constexpr int slots = 1;
  static constexpr when norms = when::never;
  static constexpr bool replays = true;

  double momentum = 0.9;
  double weight_decay = 0;
  bool nesterov = false;
  bool correction = true;
  kinds decays = kind::weight;

  template <class Real, class D>
  span_on<Real, D> propose(const view<Real, D, slots>& v, const moment&, typename D::stream) const {
    return v.grads;
  }
  template <class Real, class D>
  void accept(const view<Real, D, slots>& v, const moment& now, typename D::stream s) const {
    const detail::decayed_move<Real> step(v, momentum, nesterov, weight_decay);
    segmented_for<Real>(s, v.segments,
                        detail::at_moment{detail::velocity_sgd_at{{momentum, correction}},
                                          moment_of(v, now), detail::decaying{decays, step}});
  }
  /// g <- g + weight_decay w
  template <class Real, class D>
  void direct(const view<Real, D, slots>& v, const moment&, typename D::stream s) const {
    const detail::decayed_gradient<Real> decayed{v.weights.data, v.grads.data,
                                                 detail::factor<Real>(weight_decay)};
    segmented_for<Real>(s, v.segments, detail::decaying{decays, decayed});
  }

  void check() const {
    detail::expects_memory("velocity_sgd", "momentum", momentum);
    detail::expects_not_negative("velocity_sgd", "weight_decay", weight_decay);
  }
  [[nodiscard]] std::string describe() const {
    return text("velocity_sgd, momentum ", momentum, nesterov ? " (Nesterov)" : "",
                ", weight decay ", weight_decay, ", the rate inside the momentum",
                correction ? ", corrected when it changes" : "");
  }
};

}  // namespace cordee::inline CORDEE_ABI
