// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/ops/quantise_lanes.hpp>

using namespace cordee;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

/// Many numbers, among them ties, bounds and what is not finite.
std::vector<float> many(std::size_t n) {
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

const std::vector<affine<float>> several{
    fit_affine(-1.0f, 3.0f, unsigned_bytes), fit_affine(0.0f, 6.0f, signed_bytes),
    affine<float>{1, 1, 3, unsigned_bytes}, affine<float>{0.5f, 2, 255, unsigned_bytes}};

}  // namespace

TEST_CASE("lanes: a register is quantised as one number is") {
  constexpr int V = lanes<float>;
  const auto x = many(V * 500);
  std::uint8_t q[V];
  for (const auto& k : several) {
    if (k.to != unsigned_bytes) continue;
    for (std::size_t i = 0; i < x.size(); i += V) {
      detail::byte_lanes<V>(k).quantise(x.data() + i, q);
      bool same = true;
      for (std::size_t v = 0; v < V; ++v) same = same && q[v] == k.quantise(x[i + v]);
      CHECK(same);
    }
  }
}

TEST_CASE("lanes: whole activations are simulated and masked as one number is, by any workers") {
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{20011}})
    for (const int workers : {1, 3}) {
      const cpu device(workers);
      const auto s = device.open();
      const auto x = many(n);
      for (const auto& k : several) {
        std::vector<float> y(n), g(n, 2.0f), kept(n, 2.0f), onto(n, 5.0f);
        simulate(n, x.data(), k, y.data(), s);
        pass_straight(n, x.data(), k, kept.data(), nullptr, s);
        pass_straight(n, x.data(), k, g.data(), onto.data(), s);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < n; ++i) {
          const float passed = k.passes(x[i]) ? 2.0f : 0.0f;
          wrong += y[i] != k.simulate(x[i]) || kept[i] != passed || onto[i] != 5 + passed;
        }
        CHECK(wrong == 0);
      }
    }
}

TEST_CASE("lanes: a range is the smallest and the largest number, wherever they stand") {
  for (const int workers : {1, 3}) {
    const cpu device(workers);
    for (const std::size_t n : {std::size_t{1}, std::size_t{17}, std::size_t{30001}})
      for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
        std::vector<float> x(n, 0.5f);
        x[at] = -2;
        x[n - 1 - at] = 7;
        const real_range found = range_of(n, x.data(), device.open());
        CHECK(found == real_range{*std::min_element(x.begin(), x.end()),
                                  *std::max_element(x.begin(), x.end())});
        for (const float bad : {inf, -inf, std::nanf("")}) {
          x[at] = bad;
          const real_range broken = range_of(n, x.data(), device.open());
          CHECK(std::isnan(broken.low));
          CHECK_FALSE(broken.seen());
        }
      }
    CHECK(range_of(0, nullptr, device.open()) == real_range{});
  }
}

TEST_CASE("lanes: a range widens by what it sees, and by nothing else") {
  real_range r;
  CHECK_FALSE(r.seen());
  r.widen({});
  CHECK_FALSE(r.seen());
  r.widen({2, 3});
  CHECK(r == real_range{2, 3});
  r.widen({-1, 2.5f});
  CHECK(r == real_range{-1, 3});
  r.widen({std::nanf(""), std::nanf("")});
  CHECK(r == real_range{-1, 3});
}
