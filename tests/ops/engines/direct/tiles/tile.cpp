// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/direct/tiles/tile.hpp>

#include "tests/support/engines.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using support::random_numbers;

namespace {

constexpr int V = lanes<double>;

struct piece {
  int first, length;
};
template <int Widest, class Lengths>
std::vector<piece> tiles_of(int length) {
  std::vector<piece> all;
  for_tiles<Widest>(Lengths{}, length, [&]<int Length>(int first, int n) {
    for (; n > 0; --n, first += Length) all.push_back({first, Length});
  });
  return all;
}

template <class Lengths>
struct list;
template <int... L>
struct list<lengths<L...>> {
  static bool holds(int length) { return ((length == L) || ...); }
};

template <int Widest, class Lengths>
void check_tiles() {
  for (int length = 0; length <= 70; ++length) {
    CAPTURE(Widest);
    CAPTURE(length);
    int next = 0;
    for (const piece& p : tiles_of<Widest, Lengths>(length)) {
      CHECK(p.first == next);
      CHECK(p.length <= Widest);
      CHECK(list<Lengths>::holds(p.length));
      next += p.length;
    }
    CHECK(next == length);
  }
}

std::vector<double> numbers(std::size_t n, std::uint64_t which) { return random_numbers(n, which); }

bool near(const std::vector<double>& a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) < 1e-13)) return false;
  return a.size() == b.size();
}

/// correlate_rows against its equation, on two rows of pixels that lie `x_step` apart, and taps
/// that overlap.
template <int Blocks>
void check_row(int pixels, bool add) {
  CAPTURE(pixels);
  CAPTURE(add);
  const int columns = pixels + 6, channels = 3;
  const std::ptrdiff_t x_step = V + 1, x_row = columns * V + V;
  const std::ptrdiff_t w_block = 1000, y_step = 2 * V, y_row = y_step * pixels + 3,
                       y_block = 2 * y_row + 5;
  const auto x = numbers(static_cast<std::size_t>(3 * columns * (V + 1)), 1), w = numbers(2400, 2);
  const auto y0 = numbers(static_cast<std::size_t>(2 * y_block), 3);
  // Two taps, the second in the next row and one channel short.
  const std::vector<tap> taps{{V, 7, channels}, {columns * V + 2 * V, 300, channels - 1}};
  auto y = y0, wanted = y0;
  const row_tile<double> at{.rows = 2,
                            .pixels = pixels,
                            .x = x.data(),
                            .x_step = x_step,
                            .x_row = x_row,
                            .w = w.data(),
                            .w_block = w_block,
                            .y = y.data(),
                            .y_block = y_block,
                            .y_step = y_step,
                            .y_row = y_row,
                            .add = add};
  correlate_rows<double, V, Blocks>(at, taps.data(), taps.data() + taps.size());
  for (int b = 0; b < Blocks; ++b)
    for (int i = 0; i < at.rows; ++i)
      for (int t = 0; t < pixels; ++t)
        for (int k = 0; k < V; ++k) {
          double& to = wanted[static_cast<std::size_t>(b * y_block + i * y_row + t * y_step + k)];
          if (!add) to = 0;
          for (const tap& p : taps)
            for (int c = 0; c < p.channels; ++c)
              to += x[static_cast<std::size_t>(p.x + i * x_row + t * x_step + c)] *
                    w[static_cast<std::size_t>(p.w + b * w_block + c * V + k)];
        }
  CHECK(near(y, wanted));  // and nothing between rows and pixels is written
}

}  // namespace

TEST_CASE("tile: for_tiles covers every pixel once, in order, with lengths that are compiled") {
  check_tiles<28, tile_lengths<float, 16, 1>>();
  check_tiles<14, tile_lengths<float, 16, 2>>();
  check_tiles<12, tile_lengths<float, 8, 1>>();
  check_tiles<6, tile_lengths<float, 8, 2>>();
  check_tiles<8, tile_lengths<float, 4, 1>>();
  check_tiles<4, tile_lengths<float, 4, 2>>();
  check_tiles<9, lengths<7, 3, 1>>();
}

TEST_CASE("tile: rows of common networks are cut into equal tiles, none of them short") {
  const auto equal = [](const std::vector<piece>& all, std::size_t parts, int length) {
    bool held = all.size() == parts;
    for (const piece& p : all) held = held && p.length == length;
    return held;
  };
  using single = tile_lengths<float, 16, 1>;
  using pair = tile_lengths<float, 16, 2>;
  CHECK(equal(tiles_of<16, single>(28), 2, 14));
  CHECK(equal(tiles_of<16, single>(32), 2, 16));
  CHECK(equal(tiles_of<14, pair>(28), 2, 14));
  CHECK(equal(tiles_of<14, pair>(16), 2, 8));
  CHECK(equal(tiles_of<14, pair>(7), 1, 7));
  CHECK(equal(tiles_of<12, lengths<8, 7, 4, 1>>(28), 4, 7));  // not 8, 8, 8 and 4
  const std::vector<piece> square_of_7 = tiles_of<14, pair>(49);
  REQUIRE(square_of_7.size() == 4);  // not 8, 14, 14, 8 and five of one pixel
  CHECK(square_of_7.back().length == 7);
  for (const int pixels : {28, 56, 112, 224})
    CHECK(equal(tiles_of<14, pair>(pixels), static_cast<std::size_t>(pixels) / 14, 14));
}

TEST_CASE_TEMPLATE(
    "tile: pairs of filter blocks have tiles of three pixels or more on every register file", V,
    std::integral_constant<int, 4>, std::integral_constant<int, 8>,
    std::integral_constant<int, 16>) {
  constexpr int most = tile_registers<float, V::value> / 2;
  for (const int pixels : {7, 8, 14, 16, 28, 32, 56, 64, 112, 224}) {
    CAPTURE(pixels);
    for (const piece& p : tiles_of<most, tile_lengths<float, V::value, 2>>(pixels))
      CHECK(p.length >= 3);
  }
}

TEST_CASE("tile: accumulators leave room in the register file for the operands") {
  CHECK(tile_registers<float, 16> == 28);  // of 32
  CHECK(tile_registers<double, 8> == 28);
#if defined(__aarch64__)
  CHECK(tile_registers<float, lanes<float>> == 28);  // of 32
  CHECK(tile_registers<double, lanes<double>> == 28);
#else
  CHECK(tile_registers<float, 8> == 12);  // of 16
  CHECK(tile_registers<double, 4> == 12);
  CHECK(tile_registers<float, 4> == 8);
  CHECK(tile_registers<double, 2> == 8);
#endif
}

TEST_CASE("tile: rows are sums over taps and channels, and nothing beside them is written") {
  for (const bool add : {false, true})
    for (const int pixels : {1, 2, 3, 5, 7, 8, 11, 14, 15, 16, 17, 28, 29}) {
      check_row<1>(pixels, add);
      check_row<2>(pixels, add);
    }
}

TEST_CASE("tile: without taps a row is zero, or keeps its values") {
  for (const bool add : {false, true}) {
    std::vector<double> y(4 * V, 7.0);
    const row_tile<double> at{.pixels = 4, .y = y.data(), .y_step = V, .add = add};
    correlate_rows<double, V, 1>(at, nullptr, nullptr);
    CHECK(y == std::vector<double>(4 * V, add ? 7.0 : 0.0));
  }
}
