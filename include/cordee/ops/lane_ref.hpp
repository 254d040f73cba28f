// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The numbers of a plane at an index: one on any device, a SIMD register of them on the CPU
// (ops/cpu/simd_for_each.hpp).
#pragma once

#include <cstddef>

#include <cordee/core/config.hpp>
#include <cordee/core/limits.hpp>
#include <cordee/core/math.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Half the largest finite number: sums and differences of two numbers up to it are finite, so
/// arithmetic on `clamped` numbers computes no inf - inf and no 0 inf.
template <class Real>
inline constexpr Real half_max = core::limits<Real>::max() / 2;

/// The V numbers of a plane from index i. Planes of another type are converted.
template <class Real, int V>
struct lane_ref;

template <class Real>
struct lane_ref<Real, 1> {
  using number = Real;
  std::size_t i;

  template <class N>
  [[gnu::always_inline]] CORDEE_HOST_DEVICE number operator()(const N* plane) const {
    if constexpr (precision::StorageOnly<N>)
      return static_cast<number>(plane[i].exact());
    else
      return static_cast<number>(plane[i]);
  }
  template <class N>
  [[gnu::always_inline]] CORDEE_HOST_DEVICE void put(N* plane, number x) const {
    if constexpr (precision::StorageOnly<N>)
      plane[i] = N::nearest(static_cast<float>(x));
    else
      plane[i] = static_cast<N>(x);
  }
  [[gnu::always_inline]] CORDEE_HOST_DEVICE static number zero() { return 0; }
  /// Clamped to -limit .. limit; NaN stays NaN.
  [[gnu::always_inline]] CORDEE_HOST_DEVICE static number clamped(number x,
                                                                  Real limit = half_max<Real>) {
    x = x > limit ? limit : x;
    return x < -limit ? -limit : x;
  }
  /// x where it is greater than `least`, which NaN is not.
  [[gnu::always_inline]] CORDEE_HOST_DEVICE static number at_least(number x, Real least) {
    return x > least ? x : least;
  }
  [[gnu::always_inline]] CORDEE_HOST_DEVICE static number root(number x) { return core::sqrt(x); }
  /// -1, 0 or 1; 0 of NaN.
  [[gnu::always_inline]] CORDEE_HOST_DEVICE static number sign(number x) {
    return static_cast<number>((x > 0) - (x < 0));
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
