// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a number is while it is stored, summed and mastered.
#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

/// `storage` is what kernels and wires keep, `accumulate` what sums are made in, `master` what
/// rules step on. `scaling` is what encoding needs to know: nothing for fp32, a scale for int8.
template <class P>
concept Precision =
    std::is_trivially_copyable_v<typename P::storage> && std::floating_point<typename P::master> &&
    std::floating_point<typename P::accumulate> &&
    requires(typename P::master x, typename P::storage q, typename P::scaling k) {
      {
        P::fit(x)
      } -> std::same_as<typename P::scaling>;  // for values up to |x|; not finite stays so
      { P::encode(x, k) } -> std::same_as<typename P::storage>;
      { P::decode(q, k) } -> std::same_as<typename P::accumulate>;
      { P::scales_loss } -> std::convertible_to<bool>;
      { P::name } -> std::convertible_to<std::string_view>;
    };

/// Stores fewer bits than layers hand on: P::activation says what those are. Convolutions quantise
/// what they read, and know its range.
template <class P>
concept Quantised = Precision<P> && requires { typename P::activation; };

/// What layers hand on.
template <class P>
struct activation_of {
  using type = typename P::storage;
};
template <Quantised P>
struct activation_of<P> {
  using type = typename P::activation;
};

/// One IEEE type for everything.
template <std::floating_point Real>
struct plain_precision {
  using storage = Real;
  using master = Real;
  using accumulate = Real;
  struct scaling {};

  static constexpr bool scales_loss = false;

  CORDEE_HOST_DEVICE static constexpr scaling fit(Real) { return {}; }
  CORDEE_HOST_DEVICE static constexpr Real encode(Real x, scaling) { return x; }
  CORDEE_HOST_DEVICE static constexpr Real decode(Real q, scaling) { return q; }
};

}  // namespace cordee::inline CORDEE_ABI
