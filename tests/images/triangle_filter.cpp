// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/images/triangle_filter.hpp>

using namespace cordee::detail::images;

TEST_CASE("triangle_filter: weights are the definition's, rounded, for inputs that exist") {
  triangle_filter filter;
  for (const auto& [n, m] : std::vector<std::pair<int, int>>{
           {1, 1}, {1, 7}, {7, 1}, {5, 9}, {9, 5}, {100, 10}, {224, 224}, {317, 224}, {50, 224}}) {
    CAPTURE(n);
    CAPTURE(m);
    filter.prepare(n, m, 0, m);
    const double s = static_cast<double>(n) / m, r = std::max(s, 1.0);
    const double unit = std::ldexp(1.0, -filter.precision());
    CHECK(filter.outputs() == m);
    CHECK(filter.begin() == 0);
    CHECK(filter.end() == n);
    for (int k = 0; k < m; ++k) {
      double sum = 0;
      for (int j = 0; j < n; ++j) sum += std::max(0.0, 1 - std::abs(j + 0.5 - s * (k + 0.5)) / r);
      REQUIRE(filter.first(k) >= 0);
      REQUIRE(filter.first(k) + filter.taps() <= n);
      double covered = 0;
      for (int t = 0; t < filter.taps(); ++t) {
        const double exact =
            std::max(0.0, 1 - std::abs(filter.first(k) + t + 0.5 - s * (k + 0.5)) / r) / sum;
        covered += exact;
        // Rounding to nearest; the definition's own rounding is far below a unit.
        CHECK(std::abs(filter.weights(k)[t] * unit - exact) <= 0.5000001 * unit);
      }
      CHECK(covered == doctest::Approx(1).epsilon(1e-12));
    }
  }
}

TEST_CASE("triangle_filter: a part of an axis has the weights of the whole one") {
  triangle_filter whole, part;
  for (const auto& [n, m] : std::vector<std::pair<int, int>>{{61, 16}, {15, 26}, {9, 9}, {3, 40}}) {
    whole.prepare(n, m, 0, m);
    for (int begin = 0; begin < m; ++begin)
      for (int count = 1; begin + count <= m; ++count) {
        part.prepare(n, m, begin, count);
        CHECK(part.precision() == whole.precision());
        CHECK(part.outputs() == count);
        for (int k = 0; k < count; ++k) {
          std::vector<int> expected(static_cast<std::size_t>(n)), seen(expected);
          for (int t = 0; t < whole.taps(); ++t)
            expected[static_cast<std::size_t>(whole.first(begin + k) + t)] +=
                whole.weights(begin + k)[t];
          for (int t = 0; t < part.taps(); ++t)
            seen[static_cast<std::size_t>(part.first(k) + t)] += part.weights(k)[t];
          REQUIRE(seen == expected);
          CHECK(part.first(k) >= part.begin());
          CHECK(part.first(k) + part.taps() <= part.end());
        }
      }
  }
}
