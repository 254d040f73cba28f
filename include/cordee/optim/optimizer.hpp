// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An optimizer is a pair around one multiplication by a mixing matrix: propose, let it be mixed,
// accept.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <string_view>

#include <cordee/core/config.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/protocol.hpp>

namespace cordee::inline CORDEE_ABI {

/// A constant value; every number that changes is in the view. `propose` returns what to say (a
/// range of the view), or nothing this step; the answer stands where the proposal stood when
/// `accept` is called. `needs` is the weakest reducer it can live with, `slots` the planes of state
/// it wants, `norms` when it wants norms per segment. An `eager` rule proposes from one bucket and
/// writes no slot, so that it may speak while backward runs. `accept` maps zero weight and gradient
/// to zero. On a GPU a rule that needs an exact mean accepts before the host knows whether the mean
/// is finite: all that it changes it changes by kernels of the stream it is given, which then leave
/// it as it is (device/gated.hpp).
template <class O, class Real, class D>
concept OptimizerOn =
    std::copyable<O> && Device<D> &&
    requires(const O o, view<Real, D, O::slots> v, moment now, typename D::stream s) {
      { O::slots } -> std::convertible_to<int>;
      { O::needs } -> std::convertible_to<agreement>;
      { O::norms } -> std::convertible_to<when>;
      { O::eager } -> std::convertible_to<bool>;
      { o.propose(v, now, s) } -> std::same_as<span_on<Real, D>>;
      { o.accept(v, now, s) } -> std::same_as<void>;
    };

/// A rule whose every step hands over the same launches, says something, and carries nothing of the
/// moment but what kernels read at `moment_of`: on a GPU they may be recorded once and replayed.
template <class O>
concept Replays = requires { requires O::replays; };

/// A rule that knows which hyper-parameters make no sense: `check` throws `misuse` with a sentence.
/// The trainer asks once, when it is constructed; wrappers pass the question on.
template <class O>
concept Checks = requires(const O o) {
  { o.check() } -> std::same_as<void>;
};

/// Asks a rule that can be asked.
template <class O>
constexpr void check_rule(const O& rule) {
  if constexpr (Checks<O>) rule.check();
}

/// Which pairings of rule and reducer make sense. A rounding of the wire is harmless in a gradient
/// and poisonous in a position, whose differences are the signal.
template <class O, class R>
concept Agrees = (R::offers >= O::needs) && (R::lossless || O::needs == agreement::exact);

/// What `decentlam_over{rule}` needs of a rule: `direct` writes the direction over the gradient
/// (decay, trust ratio), reads one bucket and writes no slot.
template <class O, class Real, class D>
concept DirectsOn = OptimizerOn<O, Real, D> && requires(const O o, view<Real, D, O::slots> v,
                                                        moment now, typename D::stream s) {
  { o.direct(v, now, s) } -> std::same_as<void>;
  { o.momentum } -> std::convertible_to<double>;
};

/// A rule whose momentum feeds on the ranks' disagreement says how; the reducer then knows whether
/// it dies out.
template <class O>
concept MovesConsensus = requires(const O o) {
  { o.moves() } -> std::same_as<consensus>;
};

namespace detail {

/// A factor as the kernels' number. Rates, decays and norms far apart give factors that no float
/// holds, and infinity times a zero is not a number.
template <class Real>
CORDEE_HOST_DEVICE Real factor(double x) {
  constexpr double most = std::numeric_limits<Real>::max();
  return static_cast<Real>(std::clamp(x, -most, most));
}

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse(std::string_view rule,
                                                          std::string_view what, double value,
                                                          std::string_view range) {
  throw misuse(text(rule, ": ", what, " is ", value, ", but must be ", range));
}
// Written so that what is not a number is refused too.
inline void expects_not_negative(std::string_view rule, std::string_view what, double value) {
  if (!(value >= 0 && std::isfinite(value))) refuse(rule, what, value, "finite and 0 or more");
}
inline void expects_positive(std::string_view rule, std::string_view what, double value) {
  if (!(value > 0 && std::isfinite(value))) refuse(rule, what, value, "finite and more than 0");
}
/// A share of the past that is kept: with 1 nothing would ever be forgotten.
inline void expects_memory(std::string_view rule, std::string_view what, double value) {
  if (!(value >= 0 && value < 1)) refuse(rule, what, value, "in [0, 1)");
}

}  // namespace detail

}  // namespace cordee::inline CORDEE_ABI
