// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The types of numbers that kernels load and store, and conversions to the type of arithmetic.
#pragma once

#include <concepts>
#include <type_traits>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::precision {

/// A type for storage alone: `exact()` converts to float without rounding, `nearest(x)` rounds.
template <class N>
concept StorageOnly = std::is_trivially_copyable_v<N> && requires(N q, float x) {
  { N::nearest(x) } -> std::same_as<N>;
  { q.exact() } -> std::same_as<float>;
};

}  // namespace detail::precision

/// Type of the numbers that kernels load and store: a floating-point type, or a storage-only type
/// (`half`, `bfloat`) whose arithmetic is done in float.
template <class N>
concept Number = std::floating_point<N> || detail::precision::StorageOnly<N>;

namespace detail::precision {

/// The type in which arithmetic on N is done.
template <Number N>
using wide = std::conditional_t<StorageOnly<N>, float, N>;

template <Number N>
CORDEE_HOST_DEVICE constexpr wide<N> widened(N x) {
  if constexpr (StorageOnly<N>)
    return x.exact();
  else
    return x;
}
/// Rounds to N.
template <Number N>
CORDEE_HOST_DEVICE constexpr N rounded(wide<N> x) {
  if constexpr (StorageOnly<N>)
    return N::nearest(x);
  else
    return x;
}

}  // namespace detail::precision

}  // namespace cordee::inline CORDEE_ABI
