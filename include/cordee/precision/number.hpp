// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What kernels need of a stored number: the type it is computed in, and the way there and back.
#pragma once

#include <concepts>
#include <type_traits>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI {

/// Stored in fewer bits than it is computed in: `exact()` loses nothing, `nearest(x)` rounds.
template <class N>
concept Narrow = std::is_trivially_copyable_v<N> && requires(N q, float x) {
  { N::nearest(x) } -> std::same_as<N>;
  { q.exact() } -> std::same_as<float>;
};
template <class N>
concept Number = std::floating_point<N> || Narrow<N>;

/// What arithmetic on N is done in.
template <Number N>
using wide = std::conditional_t<Narrow<N>, float, N>;

template <Number N>
CORDEE_HOST_DEVICE constexpr wide<N> widened(N x) {
  if constexpr (Narrow<N>)
    return x.exact();
  else
    return x;
}
/// The nearest N.
template <Number N>
CORDEE_HOST_DEVICE constexpr N rounded(wide<N> x) {
  if constexpr (Narrow<N>)
    return N::nearest(x);
  else
    return x;
}

}  // namespace cordee::inline CORDEE_ABI
