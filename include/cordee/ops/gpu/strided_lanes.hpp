// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The numbers of a plane that a GPU's thread takes at once, for the bodies of ops/segment_body.hpp:
// as lane_ref, but a whole block apart, so that adjacent threads take adjacent numbers. A body
// loads all of a plane's before it stores the first one: one by one, each load would wait for the
// store before it, since the compiler cannot exclude that both have one address.
#pragma once

#include <cstddef>

#include <cordee/ops/lane_ref.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// V numbers; arithmetic is by element, and a number stands for V equal ones.
template <class Real, int V>
struct lane_numbers {
  Real value[std::size_t{V}];

  lane_numbers() = default;
  CORDEE_HOST_DEVICE constexpr lane_numbers(Real x) {  // NOLINT: implicit, as a SIMD register's
    for (Real& own : value) own = x;
  }
  CORDEE_HOST_DEVICE friend constexpr lane_numbers operator+(lane_numbers a,
                                                             const lane_numbers& b) {
    for (int k = 0; k < V; ++k) a.value[k] += b.value[k];
    return a;
  }
  CORDEE_HOST_DEVICE friend constexpr lane_numbers operator-(lane_numbers a,
                                                             const lane_numbers& b) {
    for (int k = 0; k < V; ++k) a.value[k] -= b.value[k];
    return a;
  }
  CORDEE_HOST_DEVICE friend constexpr lane_numbers operator*(lane_numbers a,
                                                             const lane_numbers& b) {
    for (int k = 0; k < V; ++k) a.value[k] *= b.value[k];
    return a;
  }
  CORDEE_HOST_DEVICE friend constexpr lane_numbers operator/(lane_numbers a,
                                                             const lane_numbers& b) {
    for (int k = 0; k < V; ++k) a.value[k] /= b.value[k];
    return a;
  }
};

/// Numbers i, i + Apart, ... of a plane.
template <class Real, int V, int Apart>
struct strided_lanes {
  using number = lane_numbers<Real, V>;
  using lane = lane_ref<Real, 1>;
  std::size_t i;

  template <class N>
  CORDEE_HOST_DEVICE number operator()(const N* plane) const {
    number x;
    for (int k = 0; k < V; ++k) x.value[k] = at(k)(plane);
    return x;
  }
  template <class N>
  CORDEE_HOST_DEVICE void put(N* plane, const number& x) const {
    for (int k = 0; k < V; ++k) at(k).put(plane, x.value[k]);
  }
  CORDEE_HOST_DEVICE static number zero() { return number(0); }
  CORDEE_HOST_DEVICE static number clamped(number x, Real limit = half_max<Real>) {
    for (Real& own : x.value) own = lane::clamped(own, limit);
    return x;
  }
  CORDEE_HOST_DEVICE static number at_least(number x, Real least) {
    for (Real& own : x.value) own = lane::at_least(own, least);
    return x;
  }
  CORDEE_HOST_DEVICE static number root(number x) {
    for (Real& own : x.value) own = lane::root(own);
    return x;
  }
  CORDEE_HOST_DEVICE static number sign(number x) {
    for (Real& own : x.value) own = lane::sign(own);
    return x;
  }

 private:
  CORDEE_HOST_DEVICE lane at(int k) const {
    return {i + static_cast<std::size_t>(k) * std::size_t{Apart}};
  }
};

/// Calls f with numbers first, first + Apart, ... below `last`, four at a time as long as they are.
template <class Real, int Apart, class F>
CORDEE_HOST_DEVICE void for_each_strided(std::size_t first, std::size_t last, const F& f) {
  constexpr std::size_t V = 4;
  std::size_t i = first;
  for (; i + (V - 1) * Apart < last; i += V * Apart) f(strided_lanes<Real, int{V}, Apart>{i});
  for (; i < last; i += Apart) f(lane_ref<Real, 1>{i});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
