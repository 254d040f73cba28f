// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/elementwise.hpp>
#include <cordee/ops/grid/exchange.hpp>
#include <cordee/testing/gradient.hpp>

#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace support;

namespace {
std::vector<float> some(std::size_t n, std::uint64_t seed) {
  const auto x = normal_numbers(n, seed);
  return {x.begin(), x.end()};
}
}  // namespace

TEST_CASE("exchange: a quotient, and that of a sum, has the host's bits") {
  for (const std::size_t n : {0u, 1u, 1023u, 1025u}) {
    const auto said = some(n, 4);
    auto x = some(n, 3), y = x;
    divide(n, 3.0f, x.data(), cpu::stream{});
    divide(n, 3.0f, y.data(), emulated::stream{7});
    CHECK(x == y);
    divide_sum(n, 3.0f, said.data(), x.data(), cpu::stream{});
    divide_sum(n, 3.0f, said.data(), y.data(), emulated::stream{7});
    CHECK(x == y);
  }
}

TEST_CASE("exchange: the first row becomes the mean of all, in order, with the host's bits") {
  for (const std::size_t rows : {1u, 2u, 5u})
    for (const std::size_t n : {0u, 1u, 1025u}) {
      auto x = some(rows * n, 3);
      std::vector<float> mean(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(n));
      for (std::size_t i = n; i < rows * n; ++i) mean[i % n] += x[i];
      for (float& m : mean) m /= static_cast<float>(rows);
      mean_of_rows(rows, n, x.data(), emulated::stream{7});
      x.resize(n);
      CHECK(x == mean);
    }
}

TEST_CASE("exchange: who hears neighbours draws near them as on the host, who agrees stays") {
  for (const std::size_t neighbours : {0u, 1u, 3u, 64u}) {
    constexpr std::size_t n = 1027;
    const std::vector<double> weights(neighbours, 0.5 / static_cast<double>(neighbours + 1));
    const auto said = some(neighbours * n, 5);
    auto x = some(n, 6), y = x;
    approach(n, said.data(), std::span<const double>(weights), x.data(), cpu::stream{});
    approach(n, said.data(), std::span<const double>(weights), y.data(), emulated::stream{7});
    for (std::size_t i = 0; i < n; ++i) CHECK(y[i] == doctest::Approx(x[i]).epsilon(1e-6));

    std::vector<float> all;
    for (std::size_t k = 0; k < neighbours; ++k) all.insert(all.end(), x.begin(), x.end());
    y = x;
    approach(n, all.data(), std::span<const double>(weights), y.data(), emulated::stream{7});
    CHECK(x == y);
  }
}
