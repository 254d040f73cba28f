// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The linear transforms of Winograd's F(2x2, 3x3), between an image and its tiles of 4 x 4
// elements, a SIMD register of channels at a time.
//
//   d:  pixels 2 i - 1 .. 2 i + 2 of x    B^T d B     m: a tile of products    A^T m A, pixels of y
//   dy: pixels 2 i, 2 i + 1 of dy         A dy A^T    g: the window            G g G^T
//
//        ( 1  0 -1  0 )          ( 1    0    0  )
//  B^T = ( 0  1  1  0 )      G = ( 1/2  1/2 1/2 )      A^T = ( 1  1  1  0 )
//        ( 0 -1  1  0 )          ( 1/2 -1/2 1/2 )            ( 0  1 -1 -1 )
//        ( 0  1  0 -1 )          ( 0    0    1  )
//
// (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016, eq. 8 to 12.)
#pragma once

#include <cstddef>

#include <cordee/core/extent.hpp>
#include <cordee/ops/cpu/simd.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Elements of a tile.
inline constexpr int winograd_elements = 16;

/// The numbers of rows and columns of tiles of an image; tiles are two pixels apart.
struct winograd_tiles {
  int rows, columns;

  explicit constexpr winograd_tiles(const extent& image)
      : rows((image.height + 1) / 2), columns((image.width + 1) / 2) {}
};

template <class Real, int V>
struct winograd_row {
  vec<Real, V> v[4];
};

/// For pixels outside an image. A function, since nvcc 13 fails on `{}` inside a lambda.
template <class Real, int V>
[[gnu::always_inline]] inline winograd_row<Real, V> zero_row() {
  winograd_row<Real, V> zeros;
  for (vec<Real, V>& number : zeros.v) number = vec<Real, V>{};
  return zeros;
}
template <class Real, int V>
[[gnu::always_inline]] inline winograd_row<Real, V> data_row(vec<Real, V> a, vec<Real, V> b,
                                                             vec<Real, V> c, vec<Real, V> d) {
  return {{a - c, b + c, c - b, b - d}};
}
template <class Real, int V>
[[gnu::always_inline]] inline winograd_row<Real, V> dy_row(vec<Real, V> a, vec<Real, V> b) {
  return {{a, a + b, a - b, -b}};
}
template <class Real, int V>
[[gnu::always_inline]] inline winograd_row<Real, V> window_row(vec<Real, V> a, vec<Real, V> b,
                                                               vec<Real, V> c) {
  const vec<Real, V> outer = (a + c) * Real{0.5}, inner = b * Real{0.5};
  return {{a, outer + inner, outer - inner, c}};
}

/// Row i of tiles of one block of channels x, (H, W, V): element e of its tile j is written to
/// to[e * pitch + j V].
template <class N, int V>
[[gnu::noinline]] void data_to_tiles(const extent& image, const N* x, int i, precision::wide<N>* to,
                                     std::ptrdiff_t pitch) {
  using Real = precision::wide<N>;
  using vector = vec<Real, V>;
  static constexpr N zeros[std::size_t{V}]{};
  const N* row[4];
  std::ptrdiff_t step[4];
  for (int r = 0; r < 4; ++r) {
    const int h = 2 * i - 1 + r;
    const bool inside = h >= 0 && h < image.height;
    row[r] = inside ? x + std::ptrdiff_t{h} * image.width * V : zeros;
    step[r] = inside ? V : 0;
  }
  const auto column = [&](int w) -> winograd_row<Real, V> {
    if (w >= image.width) return zero_row<Real, V>();
    vector d[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) d[r] = load<N, V>(row[r] + w * step[r]);
    return data_row<Real, V>(d[0], d[1], d[2], d[3]);
  };
  winograd_row<Real, V> a = zero_row<Real, V>(), b = column(0);
  for (int w = 1; w <= image.width; w += 2, to += V) {
    const winograd_row<Real, V> c = column(w), d = column(w + 1);
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      const auto element_row = data_row<Real, V>(a.v[r], b.v[r], c.v[r], d.v[r]);
#pragma GCC unroll 4
      for (int s = 0; s < 4; ++s) store<Real, V>(to + (4 * r + s) * pitch, element_row.v[s]);
    }
    a = c;
    b = d;
  }
}

/// The same of dy, (H, W, V).
template <class N, int V>
[[gnu::noinline]] void dy_to_tiles(const extent& image, const N* dy, int i, precision::wide<N>* to,
                                   std::ptrdiff_t pitch) {
  using Real = precision::wide<N>;
  static constexpr N zeros[std::size_t{V}]{};
  const N* const upper = dy + std::ptrdiff_t{2} * i * image.width * V;
  const bool has_lower = 2 * i + 1 < image.height;
  const N* const lower = has_lower ? upper + std::ptrdiff_t{V} * image.width : zeros;
  const std::ptrdiff_t step = has_lower ? V : 0;
  const auto column = [&](int w) -> winograd_row<Real, V> {
    if (w >= image.width) return zero_row<Real, V>();
    return dy_row<Real, V>(load<N, V>(upper + w * V), load<N, V>(lower + w * step));
  };
  for (int w = 0; w < image.width; w += 2, to += V) {
    const winograd_row<Real, V> a = column(w), b = column(w + 1);
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      const auto element_row = dy_row<Real, V>(a.v[r], b.v[r]);
#pragma GCC unroll 4
      for (int s = 0; s < 4; ++s) store<Real, V>(to + (4 * r + s) * pitch, element_row.v[s]);
    }
  }
}

/// Row i of tiles of products, from[e * pitch + j V], to two rows of pixels of y, (H, W, V).
template <class N, int V>
[[gnu::noinline]] void tiles_to_data(const extent& image, const precision::wide<N>* from,
                                     std::ptrdiff_t pitch, int i, N* y, bool add) {
  using Real = precision::wide<N>;
  using vector = vec<Real, V>;
  y += std::ptrdiff_t{2} * i * image.width * V;
  const std::ptrdiff_t below = std::ptrdiff_t{V} * image.width;
  const auto put = [add](N* to, vector value) {
    store<N, V>(to, add ? load<N, V>(to) + value : value);
  };
  for (int w = 0; w < image.width; w += 2, from += V, y += 2 * V) {
    vector upper[4], lower[4];
#pragma GCC unroll 4
    for (int s = 0; s < 4; ++s) {
      vector m[4];
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) m[r] = load<Real, V>(from + (4 * r + s) * pitch);
      upper[s] = m[0] + m[1] + m[2];
      lower[s] = m[1] - m[2] - m[3];
    }
    const bool right = w + 1 < image.width;
    put(y, upper[0] + upper[1] + upper[2]);
    if (right) put(y + V, upper[1] - upper[2] - upper[3]);
    if (2 * i + 1 >= image.height) continue;
    put(y + below, lower[0] + lower[1] + lower[2]);
    if (right) put(y + below + V, lower[1] - lower[2] - lower[3]);
  }
}

/// The elements G g G^T of V windows, whose tap t is at g[t * tap]: element e is written to
/// to[e * pitch].
template <class Real, int V>
[[gnu::noinline]] void window_to_tile(const Real* g, std::ptrdiff_t tap, Real* to,
                                      std::ptrdiff_t pitch) {
  winograd_row<Real, V> column[3];
  for (int s = 0; s < 3; ++s)
    column[s] = window_row<Real, V>(load<Real, V>(g + s * tap), load<Real, V>(g + (3 + s) * tap),
                                    load<Real, V>(g + (6 + s) * tap));
  for (int r = 0; r < 4; ++r) {
    const auto element_row = window_row<Real, V>(column[0].v[r], column[1].v[r], column[2].v[r]);
    for (int s = 0; s < 4; ++s) store<Real, V>(to + (4 * r + s) * pitch, element_row.v[s]);
  }
}

/// The gradient G^T u G of V windows from that of their elements: tap t is written to g[t * tap].
template <class Real, int V>
[[gnu::noinline]] void tile_to_window(const Real* from, std::ptrdiff_t pitch, Real* g,
                                      std::ptrdiff_t tap) {
  using vector = vec<Real, V>;
  const auto apply_g = [](vector a, vector b, vector c, vector d, vector* to) {
    const vector sum = (b + c) * Real{0.5};
    to[0] = a + sum;
    to[1] = (b - c) * Real{0.5};
    to[2] = sum + d;
  };
  vector row[4][3];
  for (int r = 0; r < 4; ++r) {
    vector u[4];
    for (int s = 0; s < 4; ++s) u[s] = load<Real, V>(from + (4 * r + s) * pitch);
    apply_g(u[0], u[1], u[2], u[3], row[r]);
  }
  for (int s = 0; s < 3; ++s) {
    vector column[3];
    apply_g(row[0][s], row[1][s], row[2][s], row[3][s], column);
    for (int r = 0; r < 3; ++r) store<Real, V>(g + (3 * r + s) * tap, column[r]);
  }
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
