// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/direct/tiles/rows3x3.hpp>

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

/// 3 x `channels` taps over each of three rows of x of `columns` pixels, against the equation of
/// the header.
template <int Blocks, int In, int Out, int Pitch = V>
void check(int pixels, int columns, bool add) {
  constexpr int channels = Pitch, rows = 3;
  CAPTURE(Blocks);
  CAPTURE(In);
  CAPTURE(Out);
  CAPTURE(pixels);
  CAPTURE(columns);
  const std::ptrdiff_t w_span = channels * V + 3, w_block = 3 * w_span + 1,
                       x_row = (columns + 2) * Pitch, y_row = pixels * V + 2,
                       y_block = rows * y_row + 5;
  const auto random = random_numbers(static_cast<std::size_t>(rows * x_row), 1);
  const auto w = random_numbers(static_cast<std::size_t>(2 * w_block), 2);
  // NaN beside a row, where a pixel outside the image would be read from memory.
  std::vector<double> x(random.size(), std::nan(""));
  for (int i = 0; i < rows; ++i)
    for (std::ptrdiff_t at = i * x_row + Pitch; at < (i + 1) * x_row - Pitch; ++at)
      x[static_cast<std::size_t>(at)] = random[static_cast<std::size_t>(at)];
  const auto y0 = random_numbers(static_cast<std::size_t>(Blocks * y_block), 3);
  auto y = y0, wanted = y0;
  const std::vector<tap> taps{{0, 0, channels}};
  const row_tile<double> at{.rows = rows,
                            .pixels = pixels,
                            .columns = columns,
                            .x = x.data() + Pitch,
                            .x_step = Pitch,
                            .x_row = x_row,
                            .w = w.data(),
                            .w_block = w_block,
                            .w_span = w_span,
                            .y = y.data(),
                            .y_block = y_block,
                            .y_step = V,
                            .y_row = y_row,
                            .add = add,
                            .edge = zero_pixel<double, V>};
  rows3x3_run<double, V, Pitch, Blocks, In, Out>(at, taps.data(), taps.data() + taps.size());
  for (int b = 0; b < Blocks; ++b)
    for (int i = 0; i < rows; ++i)
      for (int v = 0; v < pixels; ++v)
        for (int k = 0; k < V; ++k) {
          double& to = wanted[static_cast<std::size_t>(b * y_block + i * y_row + v * V + k)];
          if (!add) to = 0;
          for (int s = 0; s < 3; ++s) {
            // v In + s = t Out + Out - 1, t counted from the column left of the image going
            // forwards
            const int e = v * In + s - (Out - 1);
            if (e < 0 || e % Out != 0) continue;
            const int t = e / Out - (Out == 1 ? 1 : 0);
            if (t < 0 || t >= columns) continue;
            for (int c = 0; c < channels; ++c)
              to += random[static_cast<std::size_t>(i * x_row + (t + 1) * Pitch + c)] *
                    w[static_cast<std::size_t>(b * w_block + s * w_span + c * V + k)];
          }
        }
  CHECK(near(y, wanted));  // and nothing between rows and blocks is written
}

}  // namespace

TEST_CASE("rows3x3: stride 1, every width") {
  for (const bool add : {false, true})
    for (const int width : {1, 2, 3, 5, 7, 8, 13, 14, 16, 17, 28, 32, 33}) {
      check<1, 1, 1>(width, width, add);
      check<2, 1, 1>(width, width, add);
      check<1, 1, 1, 3>(width, width, add);
    }
}
TEST_CASE("rows3x3: stride 2 forwards, from rows of even and odd width") {
  for (const bool add : {false, true})
    for (const int width : {1, 2, 3, 7, 8, 14, 16, 17}) {
      check<2, 2, 1>(width, 2 * width, add);
      check<2, 2, 1>(width, 2 * width - 1, add);
    }
}
TEST_CASE("rows3x3: backward through stride 2, into rows of even and odd width") {
  for (const bool add : {false, true})
    for (const int columns : {1, 2, 3, 7, 8, 14, 16, 17}) {
      check<1, 1, 2>(2 * columns, columns, add);
      check<2, 1, 2>(2 * columns, columns, add);
      check<1, 1, 2>(2 * columns - 1, columns, add);
      check<2, 1, 2>(2 * columns - 1, columns, add);
    }
}
