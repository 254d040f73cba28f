// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A rule's arithmetic, written once and run on a register of numbers at a time.
//
//   lanewise<Real>(first, last, [=](auto at) { at.put(w, at(w) - rate * at(g)); });
//
// At -O2 GCC 12 vectorises no loop whose pointers it would have to compare first, and a rule is
// five streams of memory with a multiplication or two: half the speed is at stake. What is computed
// for a number does not depend on where the run around it begins, but for the last few of a run.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>

#include <cordee/ops/simd.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// sqrt(x), each rounded once. std::sqrt sets errno, so no compiler vectorises it without
/// -fno-math-errno, which is the user's to say: where the instruction is known it is named.
template <class Real, int V>
[[gnu::always_inline]] inline vec<Real, V> root(vec<Real, V> x) {
#if defined(__AVX__)
  if constexpr (std::same_as<Real, float>)
    asm("vsqrtps %1, %0" : "=v"(x) : "v"(x));
  else
    asm("vsqrtpd %1, %0" : "=v"(x) : "v"(x));
#else
  for (int k = 0; k < V; ++k) x[k] = std::sqrt(x[k]);
#endif
  return x;
}

/// Half of the largest number. What is no larger has finite sums and differences with its like, so
/// that arithmetic which keeps its numbers `limited` meets no inf - inf and no 0 inf.
template <class Real>
inline constexpr Real half_of_largest = std::numeric_limits<Real>::max() / 2;

/// V numbers of a plane at `i`, in the run that is being made. Planes of another type are
/// converted.
template <class Real, int V>
struct place {
  using number = vec<Real, V>;
  std::size_t i;

  template <class N>
  [[gnu::always_inline]] number operator()(const N* plane) const {
    return __builtin_convertvector((load<N, V>(plane + i)), number);
  }
  template <class N>
  [[gnu::always_inline]] void put(N* plane, number x) const {
    using other = vec<N, V>;
    store<N, V>(plane + i, __builtin_convertvector(x, other));
  }

  /// What sums begin with. Written out inside a lambda, nvcc 13 breaks on it.
  [[gnu::always_inline]] static number zero() { return number{}; }
  /// Between -most and most; what is not a number stays so.
  [[gnu::always_inline]] static number limited(number x, Real most = half_of_largest<Real>) {
    number upper = number{} + most;
#if defined(__AVX__)
    asm(""
        : "+v"(upper));  // of a known constant GCC 12 makes comparisons and blends, not a minimum
#endif
    x = upper < x ? upper : x;
    return -upper > x ? -upper : x;
  }
  [[gnu::always_inline]] static number root(number x) { return detail::root<Real, V>(x); }
};
// One number, on any device.
template <class Real>
struct place<Real, 1> {
  using number = Real;
  std::size_t i;

  template <class N>
  [[gnu::always_inline]] CORDEE_HOST_DEVICE number operator()(const N* plane) const {
    return static_cast<number>(plane[i]);
  }
  template <class N>
  [[gnu::always_inline]] CORDEE_HOST_DEVICE void put(N* plane, number x) const {
    plane[i] = static_cast<N>(x);
  }
  [[gnu::always_inline]] CORDEE_HOST_DEVICE static number zero() { return 0; }
  [[gnu::always_inline]] CORDEE_HOST_DEVICE static number limited(
      number x, Real most = half_of_largest<Real>) {
    x = x > most ? most : x;
    return x < -most ? -most : x;
  }
  [[gnu::always_inline]] CORDEE_HOST_DEVICE static number root(number x) { return std::sqrt(x); }
};

}  // namespace detail

/// f(place) for the numbers first .. last-1, all of them once; f takes any place (`auto`), which
/// reads and puts the numbers of a plane there.
template <class Real, class F>
[[gnu::always_inline]] inline void lanewise(std::size_t first, std::size_t last, const F& f) {
  constexpr std::size_t V = lanes<Real>;
  const std::size_t rest = (last - first) % V, whole = last - rest;
  for (std::size_t i = first; i < whole; i += V) f(detail::place<Real, lanes<Real>>{i});
  for (std::size_t k = 0; k < rest; ++k) f(detail::place<Real, 1>{whole + k});
}

}  // namespace cordee::inline CORDEE_ABI
