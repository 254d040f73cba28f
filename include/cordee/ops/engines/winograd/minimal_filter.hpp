// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Winograd's minimal filters F(M, 3): M sums of three terms each by M + 2 products,
//
//   y[i] = sum over r of d[i + r] g[r]  =  A^T ((G g) * (B^T d))
//
// F(2, 3) evaluates polynomials at 0, 1, -1 and infinity:
//
//        ( 1  0 -1  0 )          ( 1    0    0  )
//  B^T = ( 0  1  1  0 )      G = ( 1/2  1/2 1/2 )      A^T = ( 1  1  1  0 )
//        ( 0 -1  1  0 )          ( 1/2 -1/2 1/2 )            ( 0  1 -1 -1 )
//        ( 0  1  0 -1 )          ( 0    0    1  )
//
// F(4, 3) at 0, a, -a, b, -b and infinity, with a = 3/4 and b = 3/2, whose errors are the smallest
// of those tried (those of 1 and 2 are a quarter to a half larger); p = 1/(2 a^2 (a^2 - b^2)) and
// q = 1/(2 b^2 (b^2 - a^2)):
//
//        ( a^2 b^2    0   -a^2-b^2     0    1  0 )         ( 1/(a b)^2    0     0   )
//        (    0    -a b^2   -b^2       a    1  0 )         (     p       a p  a^2 p )
//  B^T = (    0     a b^2   -b^2      -a    1  0 )     G = (     p      -a p  a^2 p )
//        (    0    -b a^2   -a^2       b    1  0 )         (     q       b q  b^2 q )
//        (    0     b a^2   -a^2      -b    1  0 )         (     q      -b q  b^2 q )
//        (    0    a^2 b^2    0    -a^2-b^2 0  1 )         (     0        0     1   )
//
//        ( 1   1    1    1    1   0 )
//  A^T = ( 0   a   -a    b   -b   0 )
//        ( 0  a^2  a^2  b^2  b^2  0 )
//        ( 0  a^3 -a^3  b^3 -b^3  1 )
//
// (Winograd, Arithmetic Complexity of Computations, 1980; Lavin and Gray, Fast Algorithms for
// Convolutional Neural Networks, 2016, eq. 8 to 12.)
#pragma once

#include <cstddef>

#include <cordee/ops/cpu/simd.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// N numbers of each of V channels.
template <class Real, int V, int N>
struct winograd_line {
  vec<Real, V> v[std::size_t{N}];
};

/// The matrices of F(M, 3), by V channels.
template <int M, class Real, int V>
struct minimal_filter;

template <class Real, int V>
struct minimal_filter<2, Real, V> {
  template <int N>
  using line = winograd_line<Real, V, N>;

  /// B^T d
  [[gnu::always_inline]] static line<4> data(const line<4>& d) {
    return {{d.v[0] - d.v[2], d.v[1] + d.v[2], d.v[2] - d.v[1], d.v[1] - d.v[3]}};
  }
  /// A^T m
  [[gnu::always_inline]] static line<2> sums(const line<4>& m) {
    return {{m.v[0] + m.v[1] + m.v[2], m.v[1] - m.v[2] - m.v[3]}};
  }
  /// A e
  [[gnu::always_inline]] static line<4> gradients(const line<2>& e) {
    return {{e.v[0], e.v[0] + e.v[1], e.v[0] - e.v[1], -e.v[1]}};
  }
  /// G g
  [[gnu::always_inline]] static line<4> window(const line<3>& g) {
    const vec<Real, V> outer = (g.v[0] + g.v[2]) * Real{0.5}, inner = g.v[1] * Real{0.5};
    return {{g.v[0], outer + inner, outer - inner, g.v[2]}};
  }
  /// G^T u
  [[gnu::always_inline]] static line<3> window_gradient(const line<4>& u) {
    const vec<Real, V> sum = (u.v[1] + u.v[2]) * Real{0.5};
    return {{u.v[0] + sum, (u.v[1] - u.v[2]) * Real{0.5}, sum + u.v[3]}};
  }
};

template <class Real, int V>
struct minimal_filter<4, Real, V> {
  template <int N>
  using line = winograd_line<Real, V, N>;

  /// B^T d
  [[gnu::always_inline]] static line<6> data(const line<6>& d) {
    const vec<Real, V> even_a = d.v[4] - d.v[2] * b2, odd_a = d.v[3] - d.v[1] * b2,
                       even_b = d.v[4] - d.v[2] * a2, odd_b = d.v[3] - d.v[1] * a2;
    return {{d.v[0] * (a2 * b2) + (d.v[4] - d.v[2] * (a2 + b2)), even_a + odd_a * a,
             even_a - odd_a * a, even_b + odd_b * b, even_b - odd_b * b,
             d.v[1] * (a2 * b2) + (d.v[5] - d.v[3] * (a2 + b2))}};
  }
  /// A^T m
  [[gnu::always_inline]] static line<4> sums(const line<6>& m) {
    const vec<Real, V> even_a = m.v[1] + m.v[2], odd_a = (m.v[1] - m.v[2]) * a,
                       even_b = m.v[3] + m.v[4], odd_b = (m.v[3] - m.v[4]) * b;
    return {{m.v[0] + even_a + even_b, odd_a + odd_b, even_a * a2 + even_b * b2,
             odd_a * a2 + (odd_b * b2 + m.v[5])}};
  }
  /// G g
  [[gnu::always_inline]] static line<6> window(const line<3>& g) {
    constexpr Real p = 1 / (2 * a2 * (a2 - b2)), q = 1 / (2 * b2 * (b2 - a2));
    const vec<Real, V> even_a = g.v[0] + g.v[2] * a2, odd_a = g.v[1] * a,
                       even_b = g.v[0] + g.v[2] * b2, odd_b = g.v[1] * b;
    return {{g.v[0] * (1 / (a2 * b2)), (even_a + odd_a) * p, (even_a - odd_a) * p,
             (even_b + odd_b) * q, (even_b - odd_b) * q, g.v[2]}};
  }

 private:
  static constexpr Real a = Real{3} / 4, b = Real{3} / 2, a2 = a * a, b2 = b * b;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
