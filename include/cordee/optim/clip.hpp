// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Gradient clipping by the global norm, over all segments together (Pascanu, Mikolov, Bengio 2013).
//
//   g <- g min(1, max_norm / (|g| + epsilon))        then a step of the wrapped optimizer
//
// The gradient that is clipped is the one the optimizer steps on. For exact optimizers that is the
// mean over ranks, clipped in accept, so all ranks clip alike. For optimizers that step on, or
// exchange, the rank's own gradient (`local_steps`, mixing ones) it is clipped before propose,
// which needs the whole gradient, so they are not eager. Clipping each rank's gradient before
// averaging gradients is another method, which is not offered.
#pragma once

#include <string>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/math.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/cpu/elementwise.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::optim {

/// The clipping factor; the squared norm of the gradient is in the device's memory.
struct clip_factor {
  const double* square;
  double max_norm, epsilon;

  CORDEE_HOST_DEVICE static double factor(double norm, double max_norm, double epsilon) {
    return std::min(1.0, max_norm / (norm + epsilon));
  }
  CORDEE_HOST_DEVICE double factor() const {
    return factor(detail::core::sqrt(*square), max_norm, epsilon);
  }
};

/// g <- scale g
template <class Real>
struct scaled_gradient {
  Real* g;
  Real scale;

  [[nodiscard]] CORDEE_HOST_DEVICE bool is_idle() const { return scale == 1; }
  template <class At>
  constexpr void operator()(At at) const {
    at.put(g, scale * at(g));
  }
};
template <class Real>
struct clipped_gradient {
  clip_factor clip;
  Real* g;

  CORDEE_HOST_DEVICE scaled_gradient<Real> for_segment(kind, std::size_t) const {
    return {g, static_cast<Real>(clip.factor())};
  }
};

/// Squared norms after clipping: of segment k, and of the whole gradient.
struct clipped_squares {
  clip_factor clip;
  double *squares, *whole;

  CORDEE_HOST_DEVICE void operator()(std::size_t k) const {
    const double factor = clip.factor();
    squares[k] *= factor * factor;
    if (k == 0) *whole = *clip.square * factor * factor;
  }
};

}  // namespace detail::optim

/// An optimizer whose gradient is clipped by the global norm; the header's top says which gradient.
template <class Optimizer>
struct clip {
  /// Whether the mean is clipped, in `accept`; else the rank's own gradient, in `propose`.
  static constexpr bool exact = Optimizer::needs == agreement::exact;

  static constexpr agreement needs = Optimizer::needs;  ///< That of the wrapped optimizer.
  /// False if `propose` clips, which needs the whole gradient.
  static constexpr bool eager = exact && detail::optim::is_eager<Optimizer>;
  static constexpr int slots = Optimizer::slots;  ///< That of the wrapped optimizer.
  /// Norms are needed before the function that clips.
  static constexpr norms_needed norms =
      exact ? norms_needed::before_accept : norms_needed::before_propose;
  static_assert(
      !exact || detail::optim::norms_of<Optimizer> != norms_needed::before_propose,
      "clip: an exact optimizer has norms of the mean, norms_needed::before_accept or never");
  /// The wrapped optimizer's value.
  static constexpr bool capturable = detail::optim::Capturable<Optimizer>;

  Optimizer optimizer{};  ///< The optimizer that steps on the clipped gradient.
  /// Largest norm of the gradient; a gradient with a larger norm is scaled down. Range: finite,
  /// above 0, else usage_error.
  double max_norm = 1;
  /// Added to the norm in the divisor; 0: as apex and timm. Range: finite, 0 or more, else
  /// usage_error. Default: as PyTorch.
  double epsilon = 1e-6;

  /// Proposes as the wrapped optimizer, from the clipped gradient if `exact` is false.
  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, slots>& v, const step_info& info,
                           typename D::stream s) const {
    if constexpr (exact)
      return detail::optim::proposal(optimizer, v, info, s);
    else
      return clipped(v, s, [&](const auto& inner) {
        return detail::optim::proposal(optimizer, inner, info, s);
      });
  }
  /// Steps as the wrapped optimizer, on the clipped mean if `exact` is true.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    if constexpr (exact)
      clipped(v, s, [&](const auto& inner) { optimizer.accept(inner, info, s); });
    else
      optimizer.accept(v, info, s);
  }

  /// Returns the factor by which a gradient of this norm is scaled, which `fit` reports.
  [[nodiscard]] double clip_factor(double norm) const {
    return detail::optim::clip_factor::factor(norm, max_norm, epsilon);
  }

  /// Throws usage_error for an option outside its range, the wrapped optimizer's too.
  [[gnu::cold]] void check() const {
    detail::optim::expects_positive("clip", "max_norm", max_norm);
    detail::optim::expects_not_negative("clip", "epsilon", epsilon);
    detail::optim::check_optimizer(optimizer);
  }
  /// The wrapped optimizer's value.
  [[nodiscard]] cordee::momentum_form momentum_form() const
    requires detail::optim::HasMomentumForm<Optimizer>
  {
    return optimizer.momentum_form();
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat(detail::core::describe_policy(optimizer), "; gradients clipped to norm ",
                  max_norm, exact ? "" : " on each rank",
                  epsilon == 1e-6 ? "" : concat(", epsilon ", epsilon));
  }

 private:
  // f(the view with clipped gradient and norms)
  template <class Real, class D, class F>
  auto clipped(optimizer_view<Real, D, slots> v, typename D::stream s, const F& f) const {
    if (!v.finite) return f(v);
    const detail::optim::clip_factor factor_on_device{v.squared_global_norm.data, max_norm,
                                                      epsilon};
    const detail::device::stream_buffer<double, typename D::stream> square_after(s, 1);
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp, device/gpu_kernel.hpp
    segmented_for<Real>(s, v.segments,
                        detail::optim::clipped_gradient<Real>{factor_on_device, v.grads.data});
    for_each(s, v.segments.size(),
             detail::optim::clipped_squares{factor_on_device, v.squared_grad_norms.data,
                                            square_after.data()});
    v.squared_global_norm = {square_after.data(), 1};
    return f(v);
  }
};
template <class Optimizer>
clip(Optimizer, double) -> clip<Optimizer>;
template <class Optimizer>
clip(Optimizer, double, double) -> clip<Optimizer>;
template <class Optimizer>
clip(Optimizer) -> clip<Optimizer>;

}  // namespace cordee::inline CORDEE_ABI
