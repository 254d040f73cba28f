// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/ops/cpu/quantize.hpp>

#include "tests/support/quantization_goldens.hpp"

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

/// Random numbers, ties, bounds, infinities and NaN.
std::vector<float> test_numbers(std::size_t n) {
  random_sequence draw(3, purpose::test, 0, 0);
  std::vector<float> x(n);
  for (float& v : x) v = static_cast<float>(8 * draw.uniform() - 3);
  for (std::size_t i = 0; i < n; i += 2) x[i] = std::round(x[i] * 100) / 2;
  for (std::size_t i = 5; i + 3 < n; i += 97) {
    x[i] = inf;
    x[i + 1] = -inf;
    x[i + 2] = std::nanf("");
  }
  return x;
}

const std::vector<affine_quantizer<float>> quantizers{
    fit_affine(-1.0f, 3.0f, unsigned_bytes), fit_affine(0.0f, 6.0f, signed_bytes),
    affine_quantizer<float>{1, 1, 3, unsigned_bytes},
    affine_quantizer<float>{0.5f, 2, 255, unsigned_bytes}};

}  // namespace

TEST_CASE("byte_quantizer: a register is quantised as each number is") {
  constexpr int V = lanes<float>;
  const auto x = test_numbers(V * 500);
  std::uint8_t q[V];
  for (const auto& k : quantizers) {
    if (k.range != unsigned_bytes) continue;
    for (std::size_t i = 0; i < x.size(); i += V) {
      detail::ops::byte_quantizer<V>(k).quantize(x.data() + i, q);
      bool same = true;
      for (std::size_t v = 0; v < V; ++v) same = same && q[v] == k.quantize(x[i + v]);
      CHECK(same);
    }
  }
}

TEST_CASE(
    "fake_quantize, straight_through: activations as each number is, with any number of workers") {
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{20011}})
    for (const int workers : {1, 3}) {
      const cpu device(workers);
      const auto s = device.make_stream();
      const auto x = test_numbers(n);
      for (const auto& k : quantizers) {
        std::vector<float> y(n), g(n, 2.0f), masked(n, 2.0f), sum(n, 5.0f);
        fake_quantize(n, x.data(), k, y.data(), s);
        straight_through(n, x.data(), k, masked.data(), nullptr, s);
        straight_through(n, x.data(), k, g.data(), sum.data(), s);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < n; ++i) {
          const float passed = k.in_range(x[i]) ? 2.0f : 0.0f;
          wrong += y[i] != k.fake_quantize(x[i]) || masked[i] != passed || sum[i] != 5 + passed;
        }
        CHECK(wrong == 0);
      }
    }
}

TEST_CASE("straight_through: passes what torch's autograd passes of a fake quantization") {
  for (const auto& g : support::quantization_goldens::gradients) {
    INFO(g.zero_point);
    const affine_quantizer<float> k{0.25F, 4, g.zero_point, unsigned_bytes};
    std::vector<float> x, passed(g.passed.size(), 1);
    for (const int quarter : support::quantization_goldens::quarters)
      x.push_back((static_cast<float>(quarter) / 4 - static_cast<float>(g.zero_point)) / 4);
    straight_through(x.size(), x.data(), k, passed.data(), nullptr, {});
    CHECK(std::ranges::equal(passed, g.passed));
  }
}

TEST_CASE("range_of: zeros that pad blocks of channels are not data, unless there are more") {
  const cpu device;
  std::vector<float> x;
  for (int i = 0; i < 9000; ++i) x.push_back(i % 3 == 0 ? 0.0f : 0.25f + static_cast<float>(i));
  CHECK(range_of(x.size(), x.data(), device.make_stream(), 3000) == real_range{1.25f, 8999.25f});
  CHECK(range_of(x.size(), x.data(), device.make_stream(), 2999) == real_range{0, 8999.25f});
  x[4] = std::numeric_limits<float>::infinity();
  CHECK_FALSE(range_of(x.size(), x.data(), device.make_stream(), 3000).has_values());
}

TEST_CASE("range_of: minimum and maximum at any position; NaN where a number is not finite") {
  for (const int workers : {1, 3}) {
    const cpu device(workers);
    for (const std::size_t n : {std::size_t{1}, std::size_t{17}, std::size_t{30001}})
      for (const std::size_t i : {std::size_t{0}, n / 2, n - 1}) {
        std::vector<float> x(n, 0.5f);
        x[i] = -2;
        x[n - 1 - i] = 7;
        const real_range range = range_of(n, x.data(), device.make_stream());
        CHECK(range == real_range{*std::min_element(x.begin(), x.end()),
                                  *std::max_element(x.begin(), x.end())});
        for (const float bad : {inf, -inf, std::nanf("")}) {
          x[i] = bad;
          const real_range invalid = range_of(n, x.data(), device.make_stream());
          CHECK(std::isnan(invalid.low));
          CHECK_FALSE(invalid.has_values());
        }
      }
    CHECK(range_of(0, nullptr, device.make_stream()) == real_range{});
  }
}

TEST_CASE("real_range: widen is the union; empty and NaN ranges add nothing") {
  real_range r;
  CHECK_FALSE(r.has_values());
  r.widen({});
  CHECK_FALSE(r.has_values());
  r.widen({2, 3});
  CHECK(r == real_range{2, 3});
  r.widen({-1, 2.5f});
  CHECK(r == real_range{-1, 3});
  r.widen({std::nanf(""), std::nanf("")});
  CHECK(r == real_range{-1, 3});
}
