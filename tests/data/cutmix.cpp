// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/data/cutmix.hpp>

using namespace cordee;

TEST_CASE("cutmix: two images exchange a rectangle; the weight is the share that stayed") {
  for (const extent e : {extent{3, 9, 12}, extent{1, 1, 1}, extent{2, 32, 7}})
    for (std::uint64_t step = 0; step < 60; ++step) {
      std::vector<std::uint8_t> a(e.size(), 1), b(e.size(), 2);
      const float weight = cutmix{}(e, a, b, random_sequence(7, purpose::mixing, 0, step));
      int left = e.width, right = 0, top = e.height, bottom = 0;
      std::int64_t exchanged = 0;
      for (int y = 0; y < e.height; ++y)
        for (int x = 0; x < e.width; ++x) {
          const auto at = static_cast<std::size_t>(y * e.width + x);
          for (std::size_t c = 0; c < static_cast<std::size_t>(e.channels); ++c) {
            CHECK(a[c * e.pixels() + at] == a[at]);  // the same in every channel
            CHECK(a[c * e.pixels() + at] + b[c * e.pixels() + at] == 3);
          }
          if (a[at] != 2) continue;
          ++exchanged;
          left = std::min(left, x), right = std::max(right, x + 1);
          top = std::min(top, y), bottom = std::max(bottom, y + 1);
        }
      CHECK(exchanged == std::max(0, right - left) * std::max(0, bottom - top));
      CHECK(weight == static_cast<float>(1 - static_cast<double>(exchanged) /
                                                 static_cast<double>(e.pixels())));
    }
}

TEST_CASE("cutmix: a weight of Beta(1, 1) cuts half of the area on average, less the borders") {
  // Without clipping the mean share is E[1 - w] = 1/2; the center is uniform, so that of each side
  // s = sqrt(1 - w) the part inside is s - s^2 / 4 on average: E[(s - s^2/4)^2] with s^2 uniform is
  // 1/2 - E[s^3] / 2 + E[s^4] / 16 = 1/2 - 1/5 + 1/48 = 0.3208.
  const extent e{1, 200, 200};
  constexpr int n = 2000;
  double share = 0;
  std::vector<std::uint8_t> a(e.size()), b(e.size());
  for (std::uint64_t step = 0; step < n; ++step)
    share +=
        1 - static_cast<double>(cutmix{}(e, a, b, random_sequence(8, purpose::mixing, 0, step)));
  // A share is within 0 .. 1:
  // five deviations of at most 1/2 / sqrt(n), and 2 / 200 for whole pixels.
  CHECK(std::abs(share / n - 0.3208) < 5 * 0.5 / std::sqrt(n) + 0.01);
}

TEST_CASE("cutmix: alpha 0 is not active, a negative one is refused") {
  CHECK_FALSE(cutmix{0}.active());
  CHECK_THROWS_AS((void)cutmix{-1}.active(), usage_error);
}
