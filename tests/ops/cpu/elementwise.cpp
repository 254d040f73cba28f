// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/cpu/elementwise.hpp>
#include <cordee/testing/gradient.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

TEST_CASE("for_each: visits every index once, for any length and number of workers") {
  for (const int workers : {1, 2, 3})
    for (const std::size_t n : {0u, 1u, 4095u, 4096u, 4097u, 20000u}) {
      const cpu device(workers);
      std::vector<int> visits(n, 0);
      for_each(device.make_stream(), n, [v = visits.data()](std::size_t i) { ++v[i]; });
      CHECK(std::count(visits.begin(), visits.end(), 1) == static_cast<std::ptrdiff_t>(n));
    }
}

TEST_CASE("add: adding x and then -x leaves y") {
  const auto x = normal_numbers(5000, 1);
  auto y = normal_numbers(5000, 2);
  const auto before = y;
  std::vector<double> minus(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) minus[i] = -x[i];
  const cpu device(2);
  add(y.size(), x.data(), y.data(), device.make_stream());
  CHECK(y[17] == before[17] + x[17]);
  add(y.size(), minus.data(), y.data(), device.make_stream());
  for (std::size_t i = 0; i < y.size(); ++i)
    CHECK(y[i] == doctest::Approx(before[i]).epsilon(1e-12));
}

TEST_CASE_TEMPLATE("add_then_divide: has the bits of add and then divide, at every length", Real,
                   float, double) {
  for (std::size_t n : {0u, 1u, 7u, 8u, 9u, 31u, 33u, 4095u, 4097u, 20000u}) {
    const auto x = normal_numbers(n, 1), given = normal_numbers(n, 2);
    const std::vector<Real> addend(x.begin(), x.end());
    std::vector<Real> y(given.begin(), given.end()), expected = y;
    for (std::size_t i = 0; i < n; ++i) expected[i] = (expected[i] + addend[i]) / Real{3};
    auto fused = y;
    const cpu device(2);
    add_then_divide(n, Real{3}, addend.data(), fused.data(), device.make_stream());
    CHECK(fused == expected);
    add(n, addend.data(), y.data(), device.make_stream());
    divide(n, Real{3}, y.data(), device.make_stream());
    CHECK(y == expected);
  }
}

TEST_CASE("relu: its backward is the derivative of its forward") {
  auto x = normal_numbers(100, 3);
  const auto weight = normal_numbers(100, 4);
  std::vector<double> y(x.size());
  const auto loss = [&] {
    relu_forward(x.size(), x.data(), y.data(), {});
    return std::inner_product(y.begin(), y.end(), weight.begin(), 0.0);
  };
  loss();
  auto gradient = weight;
  relu_backward(y.size(), y.data(), gradient.data(), {});
  const gradient_report report = check_gradient(x, gradient, loss);
  CHECK_MESSAGE(report.max_error < 1e-8, report.describe());
}

TEST_CASE("relu: NaN stays NaN") {
  const double x = std::numeric_limits<double>::quiet_NaN();
  double y = 0;
  relu_forward(1, &x, &y, {});
  CHECK(std::isnan(y));
}

TEST_CASE_TEMPLATE("normalize_bytes: every channel is in its block, padding channels are zero",
                   Block, std::integral_constant<int, 1>, std::integral_constant<int, 3>,
                   std::integral_constant<int, 4>, std::integral_constant<int, 8>) {
  constexpr int V = Block::value;
  constexpr extent e{3, 5, 7};
  constexpr int samples = 3;
  std::vector<std::uint8_t> bytes(samples * e.size());
  random_sequence random(5, purpose::test, 0, 0);
  for (auto& b : bytes) b = static_cast<std::uint8_t>(random.below(256));
  const normalization coefficients{.mean = {0.5f, 0.25f, 0.125f}, .scale = {2, 4, 0.5f}};
  std::vector<double> x(samples * sample_size(e, V), -1);
  const cpu device(2);
  normalize_bytes<double, V>(e, samples, bytes.data(), coefficients, x.data(),
                             device.make_stream());
  std::size_t visited = 0;
  for (std::size_t n = 0; n < samples; ++n)
    for (std::size_t lane = 0; lane < channel_blocks(e.channels, V) * V; ++lane)
      for (std::size_t p = 0; p < e.pixels(); ++p, ++visited) {
        const double out = x[n * sample_size(e, V) + (lane / V * e.pixels() + p) * V + lane % V];
        if (lane >= 3) {
          CHECK(out == 0);
          continue;
        }
        const double byte = bytes[(n * 3 + lane) * e.pixels() + p];
        const auto mean = static_cast<double>(coefficients.mean[lane]),
                   scale = static_cast<double>(coefficients.scale[lane]);
        CHECK(out == doctest::Approx((byte / 255 - mean) * scale).epsilon(1e-15));
      }
  CHECK(visited == x.size());
}

TEST_CASE("normalize_bytes: no samples are no work, five channels throw") {
  const auto normalize = [](int channels) {
    normalize_bytes<float, 1>({channels, 4, 4}, 0, nullptr, {}, nullptr, {});
  };
  CHECK_NOTHROW(normalize(3));
  CHECK_THROWS_AS(normalize(5), usage_error);
}
