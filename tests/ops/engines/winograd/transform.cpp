// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Sums of small integers are integers, to which the errors of doubles are far from half a one.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/winograd/transform.hpp>

#include "tests/support/engines.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using support::dot;

namespace {

constexpr int V = lanes<double>, tap_pitch = V + 2;

/// Integers from -8 to 8.
std::vector<double> integers(std::size_t n, std::uint32_t seed) {
  std::vector<double> v = support::random_numbers(n, seed);
  for (double& x : v) x = std::round(4 * x);
  return v;
}

template <int M>
struct tiled_image {
  extent e;
  winograd_tiles tiles{M, e};
  std::ptrdiff_t row = std::ptrdiff_t{V} * tiles.columns, pitch = row * tiles.rows + 3;

  [[nodiscard]] std::size_t pixels() const { return e.pixels() * V; }
  [[nodiscard]] std::size_t elements() const {
    return static_cast<std::size_t>(winograd_elements(M) * pitch);
  }
  /// Calls f(row, its first tile) for all rows of tiles.
  template <class F>
  void for_each_row(double* tile, const F& f) const {
    for (int i = 0; i < tiles.rows; ++i) f(i, tile + i * row);
  }
  std::vector<double> x_tiles(const std::vector<double>& x) const {
    std::vector<double> to(elements());
    for_each_row(to.data(), [&](int i, double* row_tiles) {
      data_to_tiles<M, double, V>(e, x.data(), i, row_tiles, pitch);
    });
    return to;
  }
  std::vector<double> dy_tiles(const std::vector<double>& dy) const {
    std::vector<double> to(elements());
    for_each_row(to.data(), [&](int i, double* row_tiles) {
      dy_to_tiles<double, V>(e, dy.data(), i, row_tiles, pitch);
    });
    return to;
  }
  std::vector<double> pixels_of(std::vector<double> m, std::vector<double> y, bool add) const {
    for_each_row(m.data(), [&](int i, double* row_tiles) {
      tiles_to_data<M, double, V>(e, row_tiles, pitch, i, y.data(), add);
    });
    for (double& sum : y) sum = std::round(sum);
    return y;
  }
};

template <int M>
std::vector<double> tile_of(const std::vector<double>& g) {
  std::vector<double> u(winograd_elements(M) * V);
  window_to_tile<M, double, V>(g.data(), tap_pitch, u.data(), V);
  return u;
}

template <int M, class F>
void for_each_image(const F& f) {
  for (int height = 1; height <= 6; ++height)
    for (int width = 1; width <= 9; ++width) {
      CAPTURE(height);
      CAPTURE(width);
      f(tiled_image<M>{{1, height, width}});
    }
}

}  // namespace

TEST_CASE_TEMPLATE("winograd transforms: the product of tiles is the tile of the convolution",
                   Width, std::integral_constant<int, 2>, std::integral_constant<int, 4>) {
  constexpr int M = Width::value;
  for_each_image<M>([](const tiled_image<M>& image) {
    const auto [height, width] = std::pair{image.e.height, image.e.width};
    const std::vector<double> x = integers(image.pixels(), 1), g = integers(9 * tap_pitch, 2),
                              u = tile_of<M>(g);
    std::vector<double> m = image.x_tiles(x), expected(image.pixels());
    for (int e = 0; e < winograd_elements(M); ++e)
      for (std::ptrdiff_t i = 0; i < image.row * image.tiles.rows; ++i)
        m[static_cast<std::size_t>(e * image.pitch + i)] *=
            u[static_cast<std::size_t>(e * V + i % V)];
    for (int h = 0; h < height; ++h)
      for (int w = 0; w < width; ++w)
        for (int r = 0; r < 3; ++r)
          for (int s = 0; s < 3; ++s)
            for (int v = 0; v < V; ++v) {
              const int i = h + r - 1, j = w + s - 1;
              if (i < 0 || j < 0 || i >= height || j >= width) continue;
              expected[static_cast<std::size_t>((h * width + w) * V + v)] +=
                  g[static_cast<std::size_t>((3 * r + s) * tap_pitch + v)] *
                  x[static_cast<std::size_t>((i * width + j) * V + v)];
            }
    CHECK(image.pixels_of(m, std::vector<double>(expected.size(), 5), false) == expected);
    for (double& y : expected) y += 5;
    CHECK(image.pixels_of(m, std::vector<double>(expected.size(), 5), true) == expected);
  });
}

TEST_CASE("winograd transforms: dy_to_tiles is the adjoint of tiles_to_data") {
  for_each_image<2>([](const tiled_image<2>& image) {
    const std::vector<double> m = integers(image.elements(), 3), dy = integers(image.pixels(), 4);
    CHECK(dot(image.pixels_of(m, std::vector<double>(dy.size()), false), dy) ==
          dot(m, image.dy_tiles(dy)));
  });
}

TEST_CASE("winograd transforms: tile_to_window is the adjoint of window_to_tile") {
  std::vector<double> g = integers(9 * tap_pitch, 5), u = integers(winograd_elements(2) * V, 6),
                      dg(9 * V);
  tile_to_window<double, V>(u.data(), V, dg.data(), V);
  double form = 0;
  for (std::size_t t = 0; t < 9; ++t)
    for (std::size_t v = 0; v < V; ++v) form += dg[t * V + v] * g[t * tap_pitch + v];
  CHECK(form == dot(tile_of<2>(g), u));
}
