// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The linear transforms of Winograd's F(2 x M, 3 x 3) between an image and its tiles of
// 4 x (M + 2) elements, a SIMD register of channels at a time. Element 0, 1, ... of a tile follow
// row by row.
//
//   d:  rows 2 i - 1 .. 2 i + 2, columns M j - 1 .. M j + M of x    B^T d B'
//   dy: rows 2 i, 2 i + 1, columns M j .. M j + M - 1               A dy A'^T
//   m:  a tile of products                                          A^T m A', pixels of y
//   g:  the window                                                  G g G'^T
//
// A, B and G are the matrices of F(2, 3), A', B' and G' those of F(M, 3) (minimal_filter.hpp).
#pragma once

#include <cstddef>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/engines/winograd/minimal_filter.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The largest M of fprop and dgrad: with registers of 16 bytes 4 has not been timed.
template <class Real, int V>
inline constexpr int widest_tiles = std::size_t{V} * sizeof(Real) >= 32 ? 4 : 2;

/// M of fprop and dgrad. With 4 there are three quarters of the products, and packed weights of
/// half as much memory again: too much for the many channels of small images.
template <class Real, int V>
constexpr int winograd_width(const extent& image) {
  return image.width > 7 ? widest_tiles<Real, V> : 2;
}
/// M of wgrad, whose error would be 1.3 times as large with 4.
inline constexpr int winograd_gradient_width = 2;

/// Elements of a tile of 2 x M pixels.
constexpr int winograd_elements(int m) { return 4 * (m + 2); }

/// The numbers of rows and columns of tiles of an image; tiles are 2 x M pixels apart.
struct winograd_tiles {
  int m, rows, columns;

  constexpr winograd_tiles(int width, const extent& image)
      : m(width), rows((image.height + 1) / 2), columns((image.width + m - 1) / m) {}
};

/// For pixels outside an image. A function, since nvcc 13 fails on `{}` inside a lambda.
template <class Real, int V>
[[gnu::always_inline]] inline winograd_line<Real, V, 4> zero_line() {
  winograd_line<Real, V, 4> zeros;
  for (vec<Real, V>& number : zeros.v) number = vec<Real, V>{};
  return zeros;
}

/// Number i of each of `lines`.
template <class Real, int V, std::size_t N, int Length>
[[gnu::always_inline]] inline winograd_line<Real, V, int{N}> across(
    const winograd_line<Real, V, Length> (&lines)[N], int i) {
  winograd_line<Real, V, int{N}> across;
#pragma GCC unroll 6
  for (std::size_t n = 0; n < N; ++n) across.v[n] = lines[n].v[i];
  return across;
}
template <class Real, int V, int N>
[[gnu::always_inline]] inline void store_line(const winograd_line<Real, V, N>& line, Real* to,
                                              std::ptrdiff_t pitch) {
#pragma GCC unroll 6
  for (int n = 0; n < N; ++n) store<Real, V>(to + n * pitch, line.v[n]);
}
template <class Real, int V, int N>
[[gnu::always_inline]] inline winograd_line<Real, V, N> load_line(const Real* from,
                                                                  std::ptrdiff_t pitch) {
  winograd_line<Real, V, N> line;
#pragma GCC unroll 6
  for (int n = 0; n < N; ++n) line.v[n] = load<Real, V>(from + n * pitch);
  return line;
}

/// Row i of tiles of one block of channels x, (H, W, V): element e of its tile j is written to
/// to[e * pitch + j V].
template <int M, class N, int V>
[[gnu::noinline]] void data_to_tiles(const extent& image, const N* x, int i, precision::wide<N>* to,
                                     std::ptrdiff_t pitch) {
  using Real = precision::wide<N>;
  using line = winograd_line<Real, V, 4>;
  static constexpr N zeros[std::size_t{V}]{};
  const N* row[4];
  std::ptrdiff_t step[4];
  for (int r = 0; r < 4; ++r) {
    const int h = 2 * i - 1 + r;
    const bool inside = h >= 0 && h < image.height;
    row[r] = inside ? x + std::ptrdiff_t{h} * image.width * V : zeros;
    step[r] = inside ? V : 0;
  }
  const auto column = [&](int w) -> line {
    if (w >= image.width) return zero_line<Real, V>();
    line d;
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) d.v[r] = load<N, V>(row[r] + w * step[r]);
    return minimal_filter<2, Real, V>::data(d);
  };
  line d[std::size_t{M + 2}];
  d[0] = zero_line<Real, V>();
  d[1] = column(0);
  for (int w = 1; w <= image.width; w += M, to += V) {
#pragma GCC unroll 4
    for (int s = 0; s < M; ++s) d[s + 2] = column(w + s);
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r)
      store_line(minimal_filter<M, Real, V>::data(across(d, r)), to + r * (M + 2) * pitch, pitch);
    d[0] = d[M];
    d[1] = d[M + 1];
  }
}

/// The same of dy, (H, W, V), for M = 2.
template <class N, int V>
[[gnu::noinline]] void dy_to_tiles(const extent& image, const N* dy, int i, precision::wide<N>* to,
                                   std::ptrdiff_t pitch) {
  using Real = precision::wide<N>;
  using filter = minimal_filter<2, Real, V>;
  static constexpr N zeros[std::size_t{V}]{};
  const N* const upper = dy + std::ptrdiff_t{2} * i * image.width * V;
  const bool has_lower = 2 * i + 1 < image.height;
  const N* const lower = has_lower ? upper + std::ptrdiff_t{V} * image.width : zeros;
  const std::ptrdiff_t step = has_lower ? V : 0;
  const auto column = [&](int w) -> winograd_line<Real, V, 4> {
    if (w >= image.width) return zero_line<Real, V>();
    return filter::gradients({{load<N, V>(upper + w * V), load<N, V>(lower + w * step)}});
  };
  for (int w = 0; w < image.width; w += 2, to += V) {
    const winograd_line<Real, V, 4> pair[] = {column(w), column(w + 1)};
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r)
      store_line(filter::gradients(across(pair, r)), to + 4 * r * pitch, pitch);
  }
}

/// Row i of tiles of products, from[e * pitch + j V], to two rows of pixels of y, (H, W, V).
template <int M, class N, int V>
[[gnu::noinline]] void tiles_to_data(const extent& image, const precision::wide<N>* from,
                                     std::ptrdiff_t pitch, int i, N* y, bool add) {
  using Real = precision::wide<N>;
  y += std::ptrdiff_t{2} * i * image.width * V;
  const std::ptrdiff_t below = std::ptrdiff_t{V} * image.width;
  const auto put = [add](N* to, vec<Real, V> value) {
    store<N, V>(to, add ? load<N, V>(to) + value : value);
  };
  for (int w = 0; w < image.width; w += M, from += V, y += M * V) {
    winograd_line<Real, V, 2> column[std::size_t{M + 2}];
#pragma GCC unroll 6
    for (int s = 0; s < M + 2; ++s)
      column[s] = minimal_filter<2, Real, V>::sums(
          load_line<Real, V, 4>(from + s * pitch, (M + 2) * pitch));
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) {
      if (2 * i + r >= image.height) break;
      const auto pixels = minimal_filter<M, Real, V>::sums(across(column, r));
#pragma GCC unroll 4
      for (int s = 0; s < M; ++s)
        if (w + s < image.width) put(y + r * below + s * V, pixels.v[s]);
    }
  }
}

/// The elements of V windows, whose tap t is at g[t * tap]: element e is written to to[e * pitch].
template <int M, class Real, int V>
[[gnu::noinline]] void window_to_tile(const Real* g, std::ptrdiff_t tap, Real* to,
                                      std::ptrdiff_t pitch) {
  winograd_line<Real, V, 4> column[3];
#pragma GCC unroll 3
  for (int s = 0; s < 3; ++s)
    column[s] = minimal_filter<2, Real, V>::window(load_line<Real, V, 3>(g + s * tap, 3 * tap));
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r)
    store_line(minimal_filter<M, Real, V>::window(across(column, r)), to + r * (M + 2) * pitch,
               pitch);
}

/// The gradient G^T u G of V windows from that of their elements, for M = 2: tap t is written to
/// g[t * tap].
template <class Real, int V>
[[gnu::noinline]] void tile_to_window(const Real* from, std::ptrdiff_t pitch, Real* g,
                                      std::ptrdiff_t tap) {
  using filter = minimal_filter<2, Real, V>;
  winograd_line<Real, V, 3> row[4];
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r)
    row[r] = filter::window_gradient(load_line<Real, V, 4>(from + 4 * r * pitch, pitch));
#pragma GCC unroll 3
  for (int s = 0; s < 3; ++s)
    store_line(filter::window_gradient(across(row, s)), g + s * tap, 3 * tap);
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
