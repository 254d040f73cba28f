// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Of small whole numbers every sum here is exact, quarters included.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/winograd/transform.hpp>

#include "tests/support/engines.hpp"

using namespace cordee;
using namespace cordee::detail;
using support::dot;

namespace {

constexpr int V = lanes<double>, pitch_of_window = V + 2;

/// Whole numbers from -8 to 8.
std::vector<double> whole(std::size_t n, std::uint32_t seed) {
  std::vector<double> v = support::random_numbers(n, seed);
  for (double& x : v) x = std::round(4 * x);
  return v;
}

struct image {
  extent at;
  winograd_tiles tiles{at};
  std::ptrdiff_t row = std::ptrdiff_t{V} * tiles.columns, pitch = row * tiles.rows + 3;

  [[nodiscard]] std::size_t pixels() const { return at.pixels() * V; }
  [[nodiscard]] std::size_t elements() const {
    return static_cast<std::size_t>(winograd_elements * pitch);
  }
  /// f(row of tiles, where its first tile stands) for all of them.
  template <class F>
  void each_row(double* tile, const F& f) const {
    for (int i = 0; i < tiles.rows; ++i) f(i, tile + i * row);
  }
  std::vector<double> data(const std::vector<double>& x) const {
    std::vector<double> to(elements());
    each_row(to.data(), [&](int i, double* at_row) {
      data_to_tiles<double, V>(at, x.data(), i, at_row, pitch);
    });
    return to;
  }
  std::vector<double> errors(const std::vector<double>& dy) const {
    std::vector<double> to(elements());
    each_row(to.data(), [&](int i, double* at_row) {
      error_to_tiles<double, V>(at, dy.data(), i, at_row, pitch);
    });
    return to;
  }
  std::vector<double> back(std::vector<double> m, std::vector<double> y, bool add) const {
    each_row(m.data(), [&](int i, double* at_row) {
      tiles_to_data<double, V>(at, at_row, pitch, i, y.data(), add);
    });
    return y;
  }
};

std::vector<double> tile_of(const std::vector<double>& g) {
  std::vector<double> u(winograd_elements * V);
  window_to_tile<double, V>(g.data(), pitch_of_window, u.data(), V);
  return u;
}

template <class F>
void each_image(const F& f) {
  for (int height = 1; height <= 6; ++height)
    for (int width = 1; width <= 7; ++width) {
      CAPTURE(height);
      CAPTURE(width);
      f(image{{1, height, width}});
    }
}

}  // namespace

TEST_CASE("winograd: the product of tiles is the tile of the correlation") {
  each_image([](const image& all) {
    const auto [height, width] = std::pair{all.at.height, all.at.width};
    const std::vector<double> x = whole(all.pixels(), 1), g = whole(9 * pitch_of_window, 2),
                              u = tile_of(g);
    std::vector<double> m = all.data(x), wanted(all.pixels());
    for (int e = 0; e < winograd_elements; ++e)
      for (std::ptrdiff_t i = 0; i < all.row * all.tiles.rows; ++i)
        m[static_cast<std::size_t>(e * all.pitch + i)] *=
            u[static_cast<std::size_t>(e * V + i % V)];
    for (int h = 0; h < height; ++h)
      for (int w = 0; w < width; ++w)
        for (int r = 0; r < 3; ++r)
          for (int s = 0; s < 3; ++s)
            for (int v = 0; v < V; ++v) {
              const int i = h + r - 1, j = w + s - 1;
              if (i < 0 || j < 0 || i >= height || j >= width) continue;
              wanted[static_cast<std::size_t>((h * width + w) * V + v)] +=
                  g[static_cast<std::size_t>((3 * r + s) * pitch_of_window + v)] *
                  x[static_cast<std::size_t>((i * width + j) * V + v)];
            }
    CHECK(all.back(m, std::vector<double>(wanted.size(), 5), false) == wanted);
    for (double& y : wanted) y += 5;
    CHECK(all.back(m, std::vector<double>(wanted.size(), 5), true) == wanted);
  });
}

TEST_CASE("winograd: errors go to tiles by the adjoint of the way back") {
  each_image([](const image& all) {
    const std::vector<double> m = whole(all.elements(), 3), dy = whole(all.pixels(), 4);
    CHECK(dot(all.back(m, std::vector<double>(dy.size()), false), dy) == dot(m, all.errors(dy)));
  });
}

TEST_CASE("winograd: windows get their gradient by the adjoint of the way to tiles") {
  std::vector<double> g = whole(9 * pitch_of_window, 5), u = whole(winograd_elements * V, 6),
                      dg(9 * V);
  tile_to_window<double, V>(u.data(), V, dg.data(), V);
  double form = 0;
  for (std::size_t t = 0; t < 9; ++t)
    for (std::size_t v = 0; v < V; ++v) form += dg[t * V + v] * g[t * pitch_of_window + v];
  CHECK(form == dot(tile_of(g), u));
}
