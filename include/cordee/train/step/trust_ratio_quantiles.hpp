// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The trust ratios of an update, by segment and as quantiles over the segments that adapt.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/core/limits.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/optim/trust_ratio.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// Minimum, quartiles and maximum, between two numbers by linear interpolation.
struct quantiles {
  double min = 0, first_quartile = 0, median = 0, third_quartile = 0, max = 0;
};

/// The optimizer inside all wrappers.
template <class O>
const auto& innermost(const O& optimizer) {
  if constexpr (requires { optimizer.optimizer; })
    return innermost(optimizer.optimizer);
  else if constexpr (requires { optimizer.others; })  // parameter_groups
    return innermost(optimizer.others);
  else
    return optimizer;
}

/// Calls f(optimizer, learning rate) for a segment, with its own learning rate; with parameter
/// groups, for the group's optimizer, unless its updates are multiplied by 0.
template <class O, class F>
void for_optimizer_of(const O& outer, const segment& s, double learning_rate, const F& f) {
  if constexpr (requires { outer.optimizer; })
    for_optimizer_of(outer.optimizer, s, learning_rate, f);
  else if constexpr (requires { outer.others; })
    outer.for_optimizer_of(s, learning_rate,
                           [&](const auto& o, double at) { for_optimizer_of(o, s, at, f); });
  else
    f(outer, learning_rate);
}

/// As LARS: a function of the norms of weights and gradient, or of their decayed sum, of the decay
/// and of the learning rate.
template <class O>
concept RatioOfGradient = requires(const O& o, kind what) {
  o.adapt_on(what);
  o.ratio(1.0, 1.0, o.decay_on(what) ? o.weight_decay : 0.0, 1.0);
  O::form::norm_of_sum;
};
/// As LAMB: of the norms of weights and direction.
template <class O>
concept RatioOfDirection = requires(const O& o, kind what) {
  o.adapt_on(what);
  o.ratio(1.0, 1.0);
};
template <class O>
concept HasTrustRatio = RatioOfGradient<O> || RatioOfDirection<O>;

/// Requires that x is not empty. A template: optimizers without trust ratios do not compile it.
template <std::floating_point Number = double>
quantiles quantiles_of(std::vector<Number> x) {
  std::qsort(x.data(), x.size(), sizeof(Number), [](const void* first, const void* second) {
    const Number a = *static_cast<const Number*>(first), b = *static_cast<const Number*>(second);
    return a < b ? -1 : a > b ? 1 : 0;
  });
  const auto at = [&](double part) {
    const double position = part * static_cast<double>(x.size() - 1);
    const auto k = static_cast<std::size_t>(position);
    const double next = x[std::min(k + 1, x.size() - 1)];
    return x[k] + (position - static_cast<double>(k)) * (next - x[k]);
  };
  return {x.front(), at(0.25), at(0.5), at(0.75), x.back()};
}

/// f(segment, |g|, trust ratio) for each trainable segment, as of the last update: |g| is NaN
/// unless the gradient was tested, the ratio empty where the segment does not adapt or |g| was not
/// finite. Blocks the host.
template <class O, class Planes, class Stream, class F>
void for_gradient_norms(const O& outer, const Planes& planes,
                        [[maybe_unused]] const step_info& info, bool tested, Stream s, const F& f) {
  using inner = std::remove_cvref_t<decltype(innermost(outer))>;
  planes.for_norms(s, [&](const segment& of, [[maybe_unused]] double weights, double gradient,
                          [[maybe_unused]] double sum) {
    std::optional<double> ratio;
    if constexpr (HasTrustRatio<inner>)
      for_optimizer_of(outer, of, info.learning_rate, [&](const inner& optimizer, double rate) {
        if (!core::isfinite(gradient) || !optim::has_trust_ratio(optimizer, of.kind)) return;
        if constexpr (RatioOfGradient<inner>)
          ratio = optimizer.ratio(weights, inner::form::norm_of_sum ? sum : gradient,
                                  optimizer.decay_on(of.kind) ? optimizer.weight_decay : 0.0, rate);
        else
          ratio = optimizer.ratio(weights, sum);
      });
    f(of, tested ? gradient : core::limits<double>::quiet_NaN(), ratio);
  });
}

/// Those with which a run made its last update; none where nothing adapts, or where the gradient
/// was not finite. Blocks the host.
template <class Run>
std::optional<quantiles> trust_ratios(Run& run) {
  if constexpr (HasTrustRatio<std::remove_cvref_t<decltype(innermost(run.optimizer()))>>) {
    std::vector<double> found;
    run.for_gradient_norms([&](const segment&, double, auto ratio) {
      if (ratio) found.push_back(*ratio);
    });
    if (!found.empty()) return quantiles_of(std::move(found));
  }
  return std::nullopt;
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
