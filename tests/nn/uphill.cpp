// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/uphill.hpp>
#include <cordee/ops/cpu/segmented.hpp>

using namespace cordee;
using namespace cordee::detail::nn;

namespace {

constexpr std::array table{segment{"w", kind::weight, 0, 67}, segment{"b", kind::bias, 128, 5},
                           segment{"s", kind::scale, 192, 3}};
constexpr std::size_t size = 256;

std::vector<double> numbers(double first) {
  std::vector<double> x(size);
  for (const segment& s : table)
    for (std::size_t i = s.offset; i < s.end(); ++i)
      x[i] = first + (i % 2 == 0 ? 0.5 : -0.25) * static_cast<double>(i);
  return x;
}

}  // namespace

TEST_CASE("passes uphill: by the size of weights and scales, moved, and added") {
  const cpu device(1);
  const auto s = device.make_stream();
  const auto w = numbers(-3), g = numbers(2);
  auto scaled = g, moved = numbers(0), sum = numbers(1);
  const auto before = sum;
  segmented_for<double>(s, table, scaled_by_size<double>{w.data(), scaled.data(), 0.5});
  segmented_for<double>(s, table, moved_by<double>{w.data(), g.data(), moved.data(), 0.25});
  segmented_for<double>(s, table, added_with<double>{w.data(), g.data(), sum.data(), 2});
  for (const segment& of : table)
    for (std::size_t i = of.offset; i < of.end(); ++i) {
      CAPTURE(i);
      const double t = of.kind == kind::bias ? 1 : (w[i] < 0 ? -w[i] : w[i]) + 0.5;
      CHECK(scaled[i] == g[i] * t);
      CHECK(moved[i] == w[i] + 0.25 * g[i]);
      CHECK(sum[i] == before[i] + w[i] + 2 * g[i]);
    }
  for (std::size_t i = 67; i < 128; ++i) CHECK(scaled[i] == 0);
}
