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

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <cordee/ops/simd.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

// std::sqrt sets errno, so no compiler vectorises it without -fno-math-errno, which is the user's
// to say; lane by lane LAMB took a third longer. Newton's steps for 1 / sqrt(x) from the well-known
// first guess (half the exponent, negated), the last one for sqrt(x) itself.
template <class Real>
struct root_constants;
template <>
struct root_constants<float> {
  using integer = std::int32_t;
  static constexpr integer guess = 0x5f3759df;
  static constexpr int steps = 2;
  static constexpr float small = 0x1p-60f, up = 0x1p80f, down = 0x1p-40f;
};
template <>
struct root_constants<double> {
  using integer = std::int64_t;
  static constexpr integer guess = 0x5fe6eb50c7b537a9;
  static constexpr int steps = 3;
  static constexpr double small = 0x1p-500, up = 0x1p600, down = 0x1p-300;
};

/// sqrt(x) for finite x >= 0, within two units of the last place.
template <class Real, int V>
[[gnu::always_inline]] inline vec<Real, V> root(vec<Real, V> x) {
  using constants = root_constants<Real>;
  using integers = vec<typename constants::integer, V>;
  // Numbers whose exponent is at its end have no half of it: scaled, and back by the root of that.
  const vec<Real, V> one = vec<Real, V>{} + Real{1};
  const auto tiny = x < constants::small;
  x = x * (tiny ? one * constants::up : one);
  auto y = std::bit_cast<vec<Real, V>>(constants::guess - (std::bit_cast<integers>(x) >> 1));
  for (int step = 0; step < constants::steps; ++step)
    y = y * (Real(1.5) - (Real(0.5) * x * y) * y);  // in this order zero stays clear of infinity
  auto s = x * y;
  s = s + (Real(0.5) * y) * (x - s * s);
  return s * (tiny ? one * constants::down : one);
}

/// V numbers of a plane at `i`, in the run that is being made.
template <class Real, int V>
struct place {
  using number = vec<Real, V>;
  std::size_t i;

  [[gnu::always_inline]] number operator()(const Real* plane) const {
    return load<Real, V>(plane + i);
  }
  [[gnu::always_inline]] void put(Real* plane, number x) const { store<Real, V>(plane + i, x); }

  /// Between -most and most; what is not a number stays so.
  [[gnu::always_inline]] static number limited(number x, Real most) {
    const number upper = number{} + most;
    x = x > upper ? upper : x;
    return x < -upper ? -upper : x;
  }
  [[gnu::always_inline]] static number root(number x) { return detail::root<Real, V>(x); }
};
// One number, on any device.
template <class Real>
struct place<Real, 1> {
  using number = Real;
  std::size_t i;

  [[gnu::always_inline]] CORDEE_HOST_DEVICE number operator()(const Real* plane) const {
    return plane[i];
  }
  [[gnu::always_inline]] CORDEE_HOST_DEVICE void put(Real* plane, number x) const { plane[i] = x; }
  [[gnu::always_inline]] CORDEE_HOST_DEVICE static number limited(number x, Real most) {
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
