// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The four linear maps of Winograd's F(2x2, 3x3): between an image and its tiles of 4 x 4 elements,
// a register of channels at a time.
//
//   d: pixels 2 i - 1 .. 2 i + 2 of x     B^T d B     m: a tile of products    A^T m A, pixels of y
//   e: pixels 2 i, 2 i + 1 of dy          A e A^T     g: the window            G g G^T
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
#include <cordee/ops/simd.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

/// Elements of a tile.
inline constexpr int winograd_elements = 16;

/// The tiles of an image, two pixels apart: so many rows of so many.
struct winograd_tiles {
  int rows, columns;

  explicit constexpr winograd_tiles(const extent& image)
      : rows((image.height + 1) / 2), columns((image.width + 1) / 2) {}
};

template <class Real, int V>
struct winograd_line {
  vec<Real, V> of[4];
};

/// Beyond an image. Written `{}` inside a lambda, nvcc 13 breaks on it.
template <class Real, int V>
[[gnu::always_inline]] inline winograd_line<Real, V> no_line() {
  winograd_line<Real, V> none;
  for (vec<Real, V>& number : none.of) number = vec<Real, V>{};
  return none;
}
template <class Real, int V>
[[gnu::always_inline]] inline winograd_line<Real, V> data_line(vec<Real, V> a, vec<Real, V> b,
                                                               vec<Real, V> c, vec<Real, V> d) {
  return {{a - c, b + c, c - b, b - d}};
}
template <class Real, int V>
[[gnu::always_inline]] inline winograd_line<Real, V> error_line(vec<Real, V> a, vec<Real, V> b) {
  return {{a, a + b, a - b, -b}};
}
template <class Real, int V>
[[gnu::always_inline]] inline winograd_line<Real, V> window_line(vec<Real, V> a, vec<Real, V> b,
                                                                 vec<Real, V> c) {
  const vec<Real, V> outer = (a + c) * Real{0.5}, inner = b * Real{0.5};
  return {{a, outer + inner, outer - inner, c}};
}

/// Row i of tiles of one block of channels, (H, W, V): element e of its tile j goes to
/// to[e * pitch + j V].
template <class Real, int V>
[[gnu::noinline]] void data_to_tiles(const extent& image, const Real* x, int i, Real* to,
                                     std::ptrdiff_t pitch) {
  using pack = vec<Real, V>;
  static constexpr Real nothing[V]{};
  const Real* row[4];
  std::ptrdiff_t step[4];
  for (int r = 0; r < 4; ++r) {
    const int h = 2 * i - 1 + r;
    const bool inside = h >= 0 && h < image.height;
    row[r] = inside ? x + std::ptrdiff_t{h} * image.width * V : nothing;
    step[r] = inside ? V : 0;
  }
  const auto column = [&](int w) -> winograd_line<Real, V> {
    if (w >= image.width) return no_line<Real, V>();
    pack d[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) d[r] = load<Real, V>(row[r] + w * step[r]);
    return data_line<Real, V>(d[0], d[1], d[2], d[3]);
  };
  winograd_line<Real, V> a = no_line<Real, V>(), b = column(0);
  for (int w = 1; w <= image.width; w += 2, to += V) {
    const winograd_line<Real, V> c = column(w), d = column(w + 1);
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      const auto line = data_line<Real, V>(a.of[r], b.of[r], c.of[r], d.of[r]);
#pragma GCC unroll 4
      for (int s = 0; s < 4; ++s) store<Real, V>(to + (4 * r + s) * pitch, line.of[s]);
    }
    a = c;
    b = d;
  }
}

/// Likewise, of an error.
template <class Real, int V>
[[gnu::noinline]] void error_to_tiles(const extent& image, const Real* dy, int i, Real* to,
                                      std::ptrdiff_t pitch) {
  static constexpr Real nothing[V]{};
  const Real* const upper = dy + std::ptrdiff_t{2} * i * image.width * V;
  const bool two = 2 * i + 1 < image.height;
  const Real* const lower = two ? upper + std::ptrdiff_t{V} * image.width : nothing;
  const std::ptrdiff_t step = two ? V : 0;
  const auto column = [&](int at) -> winograd_line<Real, V> {
    if (at >= image.width) return no_line<Real, V>();
    return error_line<Real, V>(load<Real, V>(upper + at * V), load<Real, V>(lower + at * step));
  };
  for (int w = 0; w < image.width; w += 2, to += V) {
    const winograd_line<Real, V> a = column(w), b = column(w + 1);
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      const auto line = error_line<Real, V>(a.of[r], b.of[r]);
#pragma GCC unroll 4
      for (int s = 0; s < 4; ++s) store<Real, V>(to + (4 * r + s) * pitch, line.of[s]);
    }
  }
}

/// Row i of tiles of products, back to the pixels they give.
template <class Real, int V>
[[gnu::noinline]] void tiles_to_data(const extent& image, const Real* from, std::ptrdiff_t pitch,
                                     int i, Real* y, bool add) {
  using pack = vec<Real, V>;
  y += std::ptrdiff_t{2} * i * image.width * V;
  const std::ptrdiff_t below = std::ptrdiff_t{V} * image.width;
  const auto put = [add](Real* to, pack value) {
    store<Real, V>(to, add ? load<Real, V>(to) + value : value);
  };
  for (int w = 0; w < image.width; w += 2, from += V, y += 2 * V) {
    pack upper[4], lower[4];
#pragma GCC unroll 4
    for (int s = 0; s < 4; ++s) {
      pack m[4];
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

/// The elements of V windows, G g G^T, of which tap t stands at g[t * tap]: element e goes to
/// to[e * pitch].
template <class Real, int V>
[[gnu::noinline]] void window_to_tile(const Real* g, std::ptrdiff_t tap, Real* to,
                                      std::ptrdiff_t pitch) {
  winograd_line<Real, V> column[3];
  for (int s = 0; s < 3; ++s)
    column[s] = window_line<Real, V>(load<Real, V>(g + s * tap), load<Real, V>(g + (3 + s) * tap),
                                     load<Real, V>(g + (6 + s) * tap));
  for (int r = 0; r < 4; ++r) {
    const auto line = window_line<Real, V>(column[0].of[r], column[1].of[r], column[2].of[r]);
    for (int s = 0; s < 4; ++s) store<Real, V>(to + (4 * r + s) * pitch, line.of[s]);
  }
}

/// The gradient of V windows from that of their elements, G^T u G: tap t goes to g[t * tap].
template <class Real, int V>
[[gnu::noinline]] void tile_to_window(const Real* from, std::ptrdiff_t pitch, Real* g,
                                      std::ptrdiff_t tap) {
  using pack = vec<Real, V>;
  const auto three = [](pack a, pack b, pack c, pack d, pack* to) {
    const pack sum = (b + c) * Real{0.5};
    to[0] = a + sum;
    to[1] = (b - c) * Real{0.5};
    to[2] = sum + d;
  };
  pack row[4][3];
  for (int r = 0; r < 4; ++r) {
    pack u[4];
    for (int s = 0; s < 4; ++s) u[s] = load<Real, V>(from + (4 * r + s) * pitch);
    three(u[0], u[1], u[2], u[3], row[r]);
  }
  for (int s = 0; s < 3; ++s) {
    pack column[3];
    three(row[0][s], row[1][s], row[2][s], row[3][s], column);
    for (int r = 0; r < 3; ++r) store<Real, V>(g + (3 * r + s) * tap, column[r]);
  }
}

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
