// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An element-wise body, written once and run on a SIMD register of numbers at a time:
//
//   simd_for_each<Real>(first, last, [=](auto at) { at.put(w, at(w) - lr * at(g)); });
//
// At -O2 GCC 12 vectorises no loop that needs a run-time check for aliasing. An optimizer's update
// is five streams of memory with a multiplication or two, and takes twice as long without SIMD. A
// number's result does not depend on where its range begins, except for the last few of a range.
#pragma once

#include <concepts>
#include <cstddef>

#include <cordee/core/math.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/lane_ref.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// sqrt(x), correctly rounded. std::sqrt sets errno, so compilers vectorise it only with
/// -fno-math-errno, a choice of the user's; hence the instruction where it is known.
template <class Real, int V>
[[gnu::always_inline]] inline vec<Real, V> root(vec<Real, V> x) {
#if defined(__AVX__)
  if constexpr (std::same_as<Real, float>)
    asm("vsqrtps %1, %0" : "=v"(x) : "v"(x));
  else
    asm("vsqrtpd %1, %0" : "=v"(x) : "v"(x));
#else
  for (int k = 0; k < V; ++k) x[k] = core::sqrt(x[k]);
#endif
  return x;
}

template <class Real, int V>
struct lane_ref {
  using number = vec<Real, V>;
  std::size_t i;

  template <class N>
  [[gnu::always_inline]] number operator()(const N* plane) const {
    return __builtin_convertvector((load<N, V>(plane + i)), number);
  }
  template <class N>
  [[gnu::always_inline]] void put(N* plane, number x) const {
    using other = decltype(load<N, V>(plane));
    store<N, V>(plane + i, __builtin_convertvector(x, other));
  }

  /// For the start of a sum: nvcc 13 fails on `number{}` inside a lambda.
  [[gnu::always_inline]] static number zero() { return number{}; }
  [[gnu::always_inline]] static number clamped(number x, Real limit = half_max<Real>) {
    number upper = number{} + limit;
#if defined(__AVX__)
    // For a known constant, GCC 12 emits comparisons and blends instead of a minimum.
    asm("" : "+v"(upper));
#endif
    x = upper < x ? upper : x;
    return -upper > x ? -upper : x;
  }
  [[gnu::always_inline]] static number at_least(number x, Real least) {
    const number bound = number{} + least;
    return x > bound ? x : bound;
  }
  [[gnu::always_inline]] static number root(number x) { return ops::root<Real, V>(x); }
  [[gnu::always_inline]] static number sign(number x) {
    const number none{}, one = none + Real{1};
    return (x > none ? one : none) - (x < none ? one : none);
  }
};

/// Calls f(lane_ref) so that every index first .. last-1 is covered once. f takes any lane_ref
/// (`auto`): `at(plane)` reads its numbers of a plane, `at.put(plane, x)` writes them.
template <class Real, class F>
[[gnu::always_inline]] inline void simd_for_each(std::size_t first, std::size_t last, const F& f) {
  constexpr std::size_t V = lanes<Real>;
  const std::size_t rest = (last - first) % V, whole = last - rest;
  for (std::size_t i = first; i < whole; i += V) f(lane_ref<Real, lanes<Real>>{i});
  for (std::size_t k = 0; k < rest; ++k) f(lane_ref<Real, 1>{whole + k});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
