// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Through the resizer, against torchvision: tests/images/resize.cpp.
#include <vector>

#include <doctest/doctest.h>

#include <cordee/images/resize_passes.hpp>

using namespace cordee::detail::images;

TEST_CASE("portable_passes: two pixels become one, their mean, rounded up at a half") {
  triangle_filter columns, rows;
  columns.prepare(2, 1, 0, 1);
  rows.prepare(2, 1, 0, 1);
  portable_passes passes;
  passes.prepare(columns, 2);
  const std::uint8_t upper[]{10, 20, 255, 11, 22, 255}, lower[]{0, 0, 0, 1, 2, 255};
  std::vector<float> a(32), b(32);
  passes.resize_columns(columns, upper, a.data());
  passes.resize_columns(columns, lower, b.data());
  CHECK(std::vector<float>(a.begin(), a.begin() + 3) == std::vector<float>{11, 21, 255});
  CHECK(std::vector<float>(b.begin(), b.begin() + 3) == std::vector<float>{1, 1, 128});
  const float* const in[]{a.data(), b.data()};
  std::uint8_t out[3]{};
  passes.resize_rows(rows, 0, in, 1, out, 1);
  CHECK(out[0] == 6);
  CHECK(out[1] == 11);
  CHECK(out[2] == 192);
}
