// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/cpu/elementwise.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/testing/gradient.hpp>

#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace support;

namespace {
std::vector<float> normals(std::size_t n, std::uint64_t seed) {
  const auto x = normal_numbers(n, seed);
  return {x.begin(), x.end()};
}
}  // namespace

TEST_CASE("reduce on a GPU, emulated: divide and add_then_divide have the CPU's bits") {
  for (const std::size_t n : {0u, 1u, 1023u, 1025u}) {
    const auto received = normals(n, 4);
    auto x = normals(n, 3), y = x;
    divide(n, 3.0f, x.data(), cpu::stream{});
    divide(n, 3.0f, y.data(), emulated::stream{7});
    CHECK(x == y);
    add_then_divide(n, 3.0f, received.data(), x.data(), cpu::stream{});
    add_then_divide(n, 3.0f, received.data(), y.data(), emulated::stream{7});
    CHECK(x == y);
  }
}

TEST_CASE(
    "reduce on a GPU, emulated: the first row becomes the mean of all, added in order, with the "
    "CPU's bits") {
  for (const std::size_t rows : {1u, 2u, 5u})
    for (const std::size_t n : {0u, 1u, 1025u}) {
      auto x = normals(rows * n, 3);
      std::vector<float> mean(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(n));
      for (std::size_t i = n; i < rows * n; ++i) mean[i % n] += x[i];
      for (float& m : mean) m /= static_cast<float>(rows);
      mean_of_rows(rows, n, x.data(), emulated::stream{7});
      x.resize(n);
      CHECK(x == mean);
    }
}

TEST_CASE(
    "reduce on a GPU, emulated: mix_neighbors equals the CPU's, and changes nothing where all "
    "agree") {
  for (const std::size_t neighbors : {0u, 1u, 3u, 64u}) {
    constexpr std::size_t n = 1027;
    const std::vector<double> weights(neighbors, 0.5 / static_cast<double>(neighbors + 1));
    const auto received = normals(neighbors * n, 5);
    auto x = normals(n, 6), y = x;
    mix_neighbors(n, received.data(), std::span<const double>(weights), x.data(), cpu::stream{});
    mix_neighbors(n, received.data(), std::span<const double>(weights), y.data(),
                  emulated::stream{7});
    for (std::size_t i = 0; i < n; ++i) CHECK(y[i] == doctest::Approx(x[i]).epsilon(1e-6));

    std::vector<float> all;
    for (std::size_t k = 0; k < neighbors; ++k) all.insert(all.end(), x.begin(), x.end());
    y = x;
    mix_neighbors(n, all.data(), std::span<const double>(weights), y.data(), emulated::stream{7});
    CHECK(x == y);
  }
}
