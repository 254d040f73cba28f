// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/direct/tile.hpp>

#include "tests/support/engines.hpp"

using namespace cordee;
using namespace cordee::detail;
using support::random_numbers;

namespace {

constexpr int V = lanes<double>;

struct piece {
  int first, length;
};
template <int Widest, class Lengths>
std::vector<piece> covering(int length) {
  std::vector<piece> all;
  cover<Widest>(Lengths{}, length, [&]<int Length>(int first) { all.push_back({first, Length}); });
  return all;
}

template <class Lengths>
struct list;
template <int... L>
struct list<lengths<L...>> {
  static bool holds(int length) { return ((length == L) || ...); }
};

template <int Widest, class Lengths>
void check_cover() {
  for (int length = 0; length <= 70; ++length) {
    CAPTURE(Widest);
    CAPTURE(length);
    int next = 0;
    for (const piece& p : covering<Widest, Lengths>(length)) {
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

/// correlate_row against its sentence, on `pixels` and taps that overlap.
template <int Blocks, int Span>
void check_row(int pixels, bool add) {
  CAPTURE(pixels);
  CAPTURE(add);
  const int columns = pixels + 6, channels = 3;
  const std::ptrdiff_t w_block = 1000, w_span = 50, y_step = 2 * V, y_block = 2 * V * pixels + 5;
  const auto x = numbers(static_cast<std::size_t>(2 * columns * V), 1), w = numbers(2400, 2);
  const auto y0 = numbers(static_cast<std::size_t>(2 * y_block), 3);
  // Two taps, the second in the next row and one channel short.
  const std::vector<tap> taps{{V, 7, channels}, {columns * V + 2 * V, 300, channels - 1}};
  auto y = y0, wanted = y0;
  const row_tile<double> at{x.data(), w.data(), w_block, y.data(), y_block, y_step, add, w_span};
  correlate_row<double, V, Blocks, Span>(at, pixels, taps.data(), taps.data() + taps.size());
  for (int b = 0; b < Blocks; ++b)
    for (int t = 0; t < pixels; ++t)
      for (int k = 0; k < V; ++k) {
        double& to = wanted[static_cast<std::size_t>(b * y_block + t * y_step + k)];
        if (!add) to = 0;
        for (const tap& p : taps)
          for (int c = 0; c < p.channels; ++c)
            for (int s = 0; s < Span; ++s)
              to += x[static_cast<std::size_t>(p.x + (t + s) * V + c)] *
                    w[static_cast<std::size_t>(p.w + b * w_block + s * w_span + c * V + k)];
      }
  CHECK(near(y, wanted));  // what lies between rows and pixels included
}

}  // namespace

TEST_CASE("tile: a cover takes every pixel once, in order, by lengths that are compiled") {
  check_cover<28, row_lengths>();
  check_cover<14, row_lengths>();
  check_cover<12, row_lengths>();
  check_cover<4, row_lengths>();
  check_cover<16, few_lengths>();
  check_cover<6, few_lengths>();
  check_cover<16, channel_lengths>();
  check_cover<3, channel_lengths>();
  check_cover<9, patch_lengths>();
  check_cover<1, patch_lengths>();
}

TEST_CASE("tile: rows of the usual networks are cut into equal parts, none of them short") {
  const auto equal = [](const std::vector<piece>& all, std::size_t parts, int length) {
    bool held = all.size() == parts;
    for (const piece& p : all) held = held && p.length == length;
    return held;
  };
  CHECK(equal(covering<14, row_lengths>(28), 2, 14));
  CHECK(equal(covering<14, row_lengths>(16), 2, 8));
  CHECK(equal(covering<14, row_lengths>(24), 2, 12));
  CHECK(equal(covering<14, row_lengths>(7), 1, 7));
  CHECK(equal(covering<6, row_lengths>(8), 2, 4));
  CHECK(equal(covering<16, channel_lengths>(16), 1, 16));
  for (const int pixels : {28, 32, 56, 112, 224})  // three of eleven are not compiled: 8, 12, 12
    for (const piece& p : covering<14, row_lengths>(pixels)) CHECK(p.length >= 8);
}

TEST_CASE("tile: accumulators leave room in the register file for the operands") {
  CHECK(tile_registers<float, 16> == 28);  // of 32
  CHECK(tile_registers<double, 8> == 28);
  CHECK(tile_registers<float, 8> == 12);  // of 16
  CHECK(tile_registers<double, 4> == 12);
  CHECK(tile_registers<float, 4> == 8);
  CHECK(tile_registers<double, 2> == 8);
}

TEST_CASE("tile: a row is the sum over taps and channels, and nothing beside it is touched") {
  for (const bool add : {false, true})
    for (const int pixels : {1, 2, 3, 5, 7, 8, 11, 14, 15, 16, 17, 28, 29}) {
      check_row<1, 1>(pixels, add);
      check_row<2, 1>(pixels, add);
      check_row<1, 3>(pixels, add);
    }
}

TEST_CASE("tile: without taps a row is zero, or what it was") {
  for (const bool add : {false, true}) {
    std::vector<double> y(4 * V, 7.0);
    const row_tile<double> at{y.data(), y.data(), 0, y.data(), 0, V, add, 0};
    correlate_row<double, V, 1, 1>(at, 4, nullptr, nullptr);
    CHECK(y == std::vector<double>(4 * V, add ? 7.0 : 0.0));
  }
}

TEST_CASE("tile: a tile of the weight gradient adds its sum over samples, rows and columns") {
  for (const int channels : {1, 2, 3, 5, 8, 9, 16, 17})
    for (const int taps : {1, 2, 3}) {
      CAPTURE(channels);
      CAPTURE(taps);
      const pixel_area area{.samples = 2,
                            .rows = 3,
                            .columns = 4,
                            .x_sample = 900,
                            .x_row = 250,
                            .x_step = 40,
                            .x_tap = 20,
                            .dy_sample = 500,
                            .dy_row = 9 * V,
                            .dy_block = 230,
                            .dw_tap = 400,
                            .dw_block = 1300,
                            .taps = taps};
      const auto x = numbers(1800, 1), dy = numbers(1600, 2), dw0 = numbers(2600, 3);
      const auto sum = [&](std::vector<double>& dw, int rows, int blocks) {
        for (int r = 0; r < rows; ++r)
          for (int b = 0; b < blocks; ++b)
            for (int c = 0; c < channels; ++c)
              for (int k = 0; k < V; ++k)
                for (int n = 0; n < 2; ++n)
                  for (int i = 0; i < 3; ++i)
                    for (int j = 0; j < 4; ++j)
                      dw[static_cast<std::size_t>(r * 400 + b * 1300 + c * V + k)] +=
                          x[static_cast<std::size_t>(n * 900 + i * 250 + j * 40 + r * 20 + c)] *
                          dy[static_cast<std::size_t>(n * 500 + i * 9 * V + j * V + b * 230 + k)];
      };
      auto two = dw0, three = dw0, two_wanted = dw0, three_wanted = dw0;
      gather_channels<double, V, 1, 2>(area, x.data(), dy.data(), two.data(), channels);
      sum(two_wanted, 1, 2);
      CHECK(near(two, two_wanted));
      gather_channels<double, V, 3, 1>(area, x.data(), dy.data(), three.data(), channels);
      sum(three_wanted, taps, 1);  // taps that are not wanted are left alone
      CHECK(near(three, three_wanted));
    }
}
