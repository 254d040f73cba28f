// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/data/mixup.hpp>

using namespace cordee;

namespace {

random_sequence update(std::uint64_t step) { return {7, purpose::mixing, 0, step}; }

}  // namespace

TEST_CASE("draw_beta: mean and variance are those of Beta(alpha, alpha)") {
  constexpr int n = 20000;
  for (const double alpha : {0.01, 0.2, 1.0, 2.0, 30.0}) {
    CAPTURE(alpha);
    random_sequence random(3, purpose::test, 0, 0);
    double sum = 0, squares = 0;
    for (int i = 0; i < n; ++i) {
      const double x = detail::data::draw_beta(alpha, random);
      REQUIRE((x >= 0 && x <= 1));
      sum += x;
      squares += (x - 0.5) * (x - 0.5);
    }
    const double variance = 1 / (4 * (2 * alpha + 1));
    CHECK(std::abs(sum / n - 0.5) < 5 * std::sqrt(variance / n));
    // The fourth moment of Beta(a, a) about 1/2 is 3 / (16 (2 a + 1) (2 a + 3)).
    const double of_square = 3 / (16 * (2 * alpha + 1) * (2 * alpha + 3)) - variance * variance;
    CHECK(std::abs(squares / n - variance) < 5 * std::sqrt(of_square / n));
  }
}

TEST_CASE("draw_beta: alpha = 1 is uniform") {
  constexpr int n = 20000;
  random_sequence random(4, purpose::test, 0, 0);
  std::vector<double> x(n);
  for (double& v : x) v = detail::data::draw_beta(1.0, random);
  std::sort(x.begin(), x.end());
  double distance = 0;  // Kolmogorov's; more than 2.2 / sqrt(n) has probability 2 exp(-2 * 2.2^2)
  for (std::size_t i = 0; i < n; ++i)
    distance = std::max(distance, std::abs(x[i] - (static_cast<double>(i) + 0.5) / n));
  CHECK(distance < 2.2 / std::sqrt(n));
}

TEST_CASE("mixup: each of two images becomes the weighted mean, rounded to a byte") {
  const extent e{1, 16, 16};
  std::vector<std::uint8_t> a(e.size()), b(e.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    a[i] = static_cast<std::uint8_t>(i), b[i] = static_cast<std::uint8_t>(255 - i * 7 % 256);
  float lowest = 1, highest = 0;
  for (std::uint64_t step = 0; step < 50; ++step) {
    auto x = a, y = b;
    const float weight = mixup{.alpha = 0.4}(e, x, y, update(step));
    REQUIRE((weight >= 0 && weight <= 1));
    lowest = std::min(lowest, weight);
    highest = std::max(highest, weight);
    const auto w = static_cast<double>(weight);
    for (std::size_t i = 0; i < a.size(); ++i) {
      // Half a byte, and the rounding of three operations on floats of at most 256.
      CHECK(std::abs(x[i] - (w * a[i] + (1 - w) * b[i])) <= 0.5 + 3 * 256 * 0x1p-24);
      CHECK(std::abs(y[i] - (w * b[i] + (1 - w) * a[i])) <= 0.5 + 3 * 256 * 0x1p-24);
    }
    auto again = a, other = b;
    CHECK(mixup{.alpha = 0.4}(e, again, other, update(step)) == weight);
    CHECK((again == x && other == y));
  }
  CHECK(lowest < 0.1F);
  CHECK(highest > 0.9F);
}

TEST_CASE("mixup: equal images stay, whatever the weight") {
  const extent e{1, 16, 16};
  std::vector<std::uint8_t> a(e.size());
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<std::uint8_t>(i);
  auto x = a, y = a;
  for (std::uint64_t step = 0; step < 20; ++step) (void)mixup{1}(e, x, y, update(step));
  CHECK((x == a && y == a));
}

TEST_CASE("mixup: alpha 0 is not active; a negative, tiny, huge or NaN alpha is refused") {
  CHECK_FALSE(mixup{0}.active());
  CHECK(mixup{}.active());
  for (const double alpha : {-1.0, 1e-3, 1e7, std::numeric_limits<double>::quiet_NaN(), HUGE_VAL}) {
    CAPTURE(alpha);
    CHECK_THROWS_AS((void)mixup{alpha}.active(), usage_error);
  }
}
