// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The types of one precision: storage, accumulation and master weights.
#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

/// `storage` is the type in memory and on the wire, `accumulate` that of sums, `master` that of the
/// weights that optimizers update. `scaling` parametrizes encoding: empty for fp32, a scale for
/// int8. `fit(x)` is the scaling for values up to |x|; if x is not finite, values decode to NaN.
template <class P>
concept Precision =
    std::is_trivially_copyable_v<typename P::storage> && std::floating_point<typename P::master> &&
    std::floating_point<typename P::accumulate> &&
    requires(typename P::master x, typename P::storage q, typename P::scaling k) {
      { P::fit(x) } -> std::same_as<typename P::scaling>;
      { P::encode(x, k) } -> std::same_as<typename P::storage>;
      { P::decode(q, k) } -> std::same_as<typename P::accumulate>;
      { P::scales_loss } -> std::convertible_to<bool>;
      { P::name } -> std::convertible_to<std::string_view>;
    };

/// Activations have type P::activation, which is wider than P::storage; convolutions quantize their
/// inputs by running ranges.
template <class P>
concept Quantized = Precision<P> && requires { typename P::activation; };

namespace detail::precision {

/// The type of activations.
template <class P>
struct activation_of {
  using type = typename P::storage;
};
template <Quantized P>
struct activation_of<P> {
  using type = typename P::activation;
};

/// One IEEE type for storage, sums and masters.
template <std::floating_point Real>
struct plain_precision {
  using storage = Real;     ///< See Precision.
  using master = Real;      ///< See Precision.
  using accumulate = Real;  ///< See Precision.
  struct scaling {};        ///< Empty: numbers are not encoded.

  static constexpr bool scales_loss = false;  ///< Gradients are not scaled.

  /// Returns the empty scaling, for any range.
  CORDEE_HOST_DEVICE static constexpr scaling fit(Real) { return {}; }
  /// Returns x.
  CORDEE_HOST_DEVICE static constexpr Real encode(Real x, scaling) { return x; }
  /// Returns q.
  CORDEE_HOST_DEVICE static constexpr Real decode(Real q, scaling) { return q; }
};

}  // namespace detail::precision

}  // namespace cordee::inline CORDEE_ABI
