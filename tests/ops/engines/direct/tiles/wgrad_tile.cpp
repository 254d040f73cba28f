// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/direct/tiles/rows3x3.hpp>
#include <cordee/ops/engines/direct/tiles/wgrad_tile.hpp>

#include "tests/support/engines.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using support::random_numbers;

namespace {

constexpr int V = lanes<double>;

bool near(const std::vector<double>& a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) < 1e-13)) return false;
  return a.size() == b.size();
}

/// The three taps of a window row over `rows` rows of `columns` pixels of dy.
template <bool Strided>
void check_rows3x3(int columns, int x_columns) {
  constexpr int stride = Strided ? 2 : 1, channels = channels_per_tile<double, V>(3), rows = 3;
  CAPTURE(columns);
  CAPTURE(x_columns);
  const bool overhangs = (columns - 1) * stride + 1 >= x_columns;
  const pixel_area area{.samples = 2,
                        .rows = rows,
                        .columns = columns,
                        .x_sample = rows * x_columns * V + 3,
                        .x_row = x_columns * V,
                        .x_step = stride * V,
                        .dy_sample = rows * columns * V + 5,
                        .dy_row = columns * V,
                        .dw_tap = channels * V + 7};
  // NaN wherever a pixel outside the image would be read from memory.
  std::vector<double> x(static_cast<std::size_t>(2 * area.x_sample + 2 * V), std::nan(""));
  std::vector<double> dy(static_cast<std::size_t>(2 * area.dy_sample + 2 * V), std::nan(""));
  const auto fill = [&](std::vector<double>& to, std::ptrdiff_t sample, int width,
                        std::uint64_t seed) {
    const auto from = random_numbers(to.size(), seed);
    for (int n = 0; n < 2; ++n)
      for (int i = 0; i < rows * width * V; ++i) {
        const auto at = static_cast<std::size_t>(V + n * sample + i);
        to[at] = from[at];
      }
  };
  fill(x, area.x_sample, x_columns, 1);
  fill(dy, area.dy_sample, columns, 2);
  auto dw = random_numbers(static_cast<std::size_t>(3 * area.dw_tap), 3), wanted = dw;
  wgrad_tile_rows3x3<double, V, channels, Strided>(area, zero_pixel<double, V>, overhangs,
                                                   x.data() + V, dy.data() + V, dw.data(),
                                                   {x.data(), V, 0, dw.data()});
  for (int s = 0; s < 3; ++s)
    for (int c = 0; c < channels; ++c)
      for (int k = 0; k < V; ++k)
        for (int n = 0; n < 2; ++n)
          for (int i = 0; i < rows; ++i)
            for (int j = 0; j < columns; ++j) {
              const int column = j * stride + s - 1;
              if (column < 0 || column >= x_columns) continue;
              wanted[static_cast<std::size_t>(s * area.dw_tap + c * V + k)] +=
                  x[static_cast<std::size_t>(V + n * area.x_sample + i * area.x_row + column * V +
                                             c)] *
                  dy[static_cast<std::size_t>(V + n * area.dy_sample + i * area.dy_row + j * V +
                                              k)];
            }
  CHECK(near(dw, wanted));
}

/// All nine taps over two images of `rows` x `columns` pixels, with one channel more than are
/// summed.
void check_image(int rows, int columns) {
  constexpr int channels = image_channels<double, V>, pitch = channels + 1;
  CAPTURE(rows);
  CAPTURE(columns);
  const std::ptrdiff_t pixels = std::ptrdiff_t{rows} * columns;
  const pixel_area area{.samples = 2,
                        .rows = rows,
                        .columns = columns,
                        .x_sample = pixels * pitch + 3,
                        .x_row = columns * pitch,
                        .x_step = pitch,
                        .dy_sample = pixels * V + 5,
                        .dy_row = columns * V,
                        .dw_tap = channels * V + 7,
                        .dw_block = 3 * channels * V + 50};
  const auto size = [](std::ptrdiff_t n) { return static_cast<std::size_t>(n); };
  const auto images = random_numbers(size(2 * area.x_sample), 1),
             dys = random_numbers(size(2 * area.dy_sample), 2);
  // NaN around each image.
  std::vector<double> x(size(2 * area.x_sample + pitch), std::nan(""));
  std::vector<double> dy(size(2 * area.dy_sample + V), std::nan(""));
  for (int n = 0; n < 2; ++n) {
    for (std::ptrdiff_t i = n * area.x_sample; i < n * area.x_sample + pixels * pitch; ++i)
      x[size(pitch + i)] = images[size(i)];
    for (std::ptrdiff_t i = n * area.dy_sample; i < n * area.dy_sample + pixels * V; ++i)
      dy[size(V + i)] = dys[size(i)];
  }
  auto dw = random_numbers(size(3 * area.dw_block), 3), wanted = dw;
  std::vector<double> edge(size(V + columns * pitch), std::nan(""));  // one pixel of zeros
  std::fill_n(edge.begin(), V, 0.0);
  wgrad_tile_image3x3<double, V, channels>(area, edge.data(), x.data() + pitch, dy.data() + V,
                                           dw.data());
  for (int r = 0; r < 3; ++r)
    for (int s = 0; s < 3; ++s)
      for (int n = 0; n < 2; ++n)
        for (int i = std::max(0, 1 - r); i < std::min(rows, rows + 1 - r); ++i)
          for (int j = std::max(0, 1 - s); j < std::min(columns, columns + 1 - s); ++j)
            for (int c = 0; c < channels; ++c)
              for (int k = 0; k < V; ++k)
                wanted[size(r * area.dw_block + s * area.dw_tap + c * V + k)] +=
                    images[size(n * area.x_sample + (i + r - 1) * area.x_row + (j + s - 1) * pitch +
                                c)] *
                    dys[size(n * area.dy_sample + i * area.dy_row + j * V + k)];
  CHECK(near(dw, wanted));
}

}  // namespace

TEST_CASE("wgrad_tile: a tile adds its sum over samples, rows and columns") {
  constexpr int channels = channels_per_tile<double, V>(3);
  for (const int taps : {1, 2, 3}) {
    CAPTURE(taps);
    constexpr int blocks = max_filter_blocks<double, V>,
                  single = channels_per_tile<double, V>(blocks);
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
    const auto x = random_numbers(1800, 1), dy = random_numbers(1600, 2),
               dw0 = random_numbers(5200, 3);
    const auto sum = [&](std::vector<double>& dw, int rows, int of, int inputs) {
      for (int r = 0; r < rows; ++r)
        for (int b = 0; b < of; ++b)
          for (int c = 0; c < inputs; ++c)
            for (int k = 0; k < V; ++k)
              for (int n = 0; n < 2; ++n)
                for (int i = 0; i < 3; ++i)
                  for (int j = 0; j < 4; ++j)
                    dw[static_cast<std::size_t>(r * 400 + b * 1300 + c * V + k)] +=
                        x[static_cast<std::size_t>(n * 900 + i * 250 + j * 40 + r * 20 + c)] *
                        dy[static_cast<std::size_t>(n * 500 + i * 9 * V + j * V + b * 230 + k)];
    };
    auto one = dw0, three = dw0, one_wanted = dw0, three_wanted = dw0;
    wgrad_tile<double, V, 1, blocks, single>(area, x.data(), dy.data(), one.data());
    sum(one_wanted, 1, blocks, single);
    CHECK(near(one, one_wanted));
    wgrad_tile<double, V, 3, 1, channels>(area, x.data(), dy.data(), three.data());
    sum(three_wanted, taps, 1, channels);  // taps beyond area.taps are not written
    CHECK(near(three, three_wanted));
  }
}

TEST_CASE("wgrad_tile: the channels of a tile divide a block and fit the register file") {
  CHECK(channels_per_tile<float, 16>(1) == 16);
  CHECK(channels_per_tile<float, 16>(2) == 8);
  CHECK(channels_per_tile<float, 16>(3) == 8);
  CHECK(channels_per_tile<double, 8>(3) == 8);
#if defined(__aarch64__)
  CHECK(channels_per_tile<float, lanes<float>>(max_filter_blocks<float, lanes<float>>) ==
        std::min(lanes<float>, 8));
  CHECK(max_filter_blocks<float, lanes<float>> == (register_bytes == 16   ? 4
                                                   : register_bytes == 32 ? 3
                                                                          : 2));
#else
  CHECK(channels_per_tile<float, 8>(3) == 4);
  CHECK(channels_per_tile<float, 8>(max_filter_blocks<float, 8>) == 4);
  CHECK(channels_per_tile<double, 4>(max_filter_blocks<double, 4>) == 4);
  CHECK(channels_per_tile<float, 4>(3) == 2);
  CHECK(channels_per_tile<double, 2>(3) == 2);
#endif
}

TEST_CASE("wgrad_tile: three taps at once, pixels outside the image are zeros") {
  for (const int columns : {1, 2, 3, 7, 8}) {
    check_rows3x3<false>(columns, columns);
    check_rows3x3<true>(columns, 2 * columns);
    check_rows3x3<true>(columns, 2 * columns - 1);
  }
}

TEST_CASE("wgrad_tile: nine taps at once, rows and columns outside the images are zeros") {
  for (const int rows : {1, 2, 3, 5})
    for (const int columns : {1, 2, 7}) check_image(rows, columns);
}
