// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/ops/histogram.hpp>

using namespace cordee;

namespace {

using counts = std::vector<double>;

counts of(const std::vector<float>& x, cpu::stream s = {}) {
  counts c(number_bins::count);
  count_numbers(x.size(), x.data(), c, s);
  return c;
}
real_range middle(const std::vector<float>& x, double percent) {
  return middle_of(of(x), range_of(x.size(), x.data(), {}), percent);
}
std::vector<float> normals(std::size_t n) {
  random_sequence draw(5, purpose::test, 0, 0);
  std::vector<float> x(n);
  for (float& v : x) v = static_cast<float>(draw.normal());
  return x;
}

}  // namespace

TEST_CASE("histogram: every number lies between its bin's edges, an eighth of it apart at most") {
  for (int b = 1; b < number_bins::count; ++b)
    CHECK(number_bins::edge(b - 1) < number_bins::edge(b));
  auto x = normals(1000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::ldexp(x[i], static_cast<int>(i % 24) - 14);
  for (const float v : x) {
    const int b = number_bins::of(v);
    const float low = number_bins::edge(b), high = number_bins::edge(b + 1);
    CHECK(low <= v);
    CHECK(v <= high);
    CHECK(high - low <= std::max(0.126f * std::abs(v), 0x1.3p-20f));
  }
}

TEST_CASE("histogram: what is nearer to zero or farther than bins reach is of the last ones") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  CHECK(number_bins::of(0.0f) == number_bins::half);
  CHECK(number_bins::of(0x1p-140f) == number_bins::half);
  CHECK(number_bins::of(-0.0f) == number_bins::half - 1);
  CHECK(number_bins::of(4095) == number_bins::count - 1);
  CHECK(number_bins::of(inf) == number_bins::count - 1);
  CHECK(number_bins::of(-inf) == 0);
  CHECK(number_bins::of(std::nanf("")) == number_bins::count - 1);
}

TEST_CASE("histogram: parts add up to the whole, and workers change nothing") {
  const auto x = normals(20011);
  const auto all = of(x);
  for (const int workers : {1, 3}) {
    const cpu device(workers);
    CHECK(of(x, device.open()) == all);
  }
  counts parts(number_bins::count);
  count_numbers(777, x.data(), parts, {});
  count_numbers(x.size() - 777, x.data() + 777, parts, {});
  CHECK(parts == all);
}

TEST_CASE("middle: a percentile is the sorted numbers', to a bin; a higher one is no narrower") {
  auto x = normals(20011);
  real_range before{0, 0};
  for (const double percent : {60.0, 90.0, 99.0, 99.9, 99.99, 100.0}) {
    const real_range m = middle(x, percent);
    CHECK(m.low <= before.low);
    CHECK(m.high >= before.high);
    before = m;
    auto sorted = x;
    std::sort(sorted.begin(), sorted.end());
    const auto cut = static_cast<std::size_t>(static_cast<double>(x.size()) * (1 - percent / 100));
    CHECK(m.low == doctest::Approx(sorted[cut]).epsilon(0.13));
    CHECK(m.high == doctest::Approx(sorted[x.size() - 1 - cut]).epsilon(0.13));
  }
  CHECK(before == range_of(x.size(), x.data(), {}));
}

TEST_CASE("middle: it is linear in a bin") {
  // Eight numbers of 1 .. 9/8 and two of 2 .. 9/4: a tenth off the top is half of those two.
  std::vector<float> x(8, 1.0f);
  x.insert(x.end(), {2.0f, 2.25f - 0x1p-20f});
  const real_range m = middle(x, 90);
  CHECK(m.high == doctest::Approx(2.125));
  CHECK(m.low == doctest::Approx(1 + 0.125 / 8));
}

TEST_CASE("middle: a heavy tail is cut, at the bins' end as well") {
  auto x = normals(10000);
  for (std::size_t i = 0; i < 5; ++i) {
    x[100 * i] = 1e6f;  // beyond 2^12
    x[100 * i + 1] = -300;
  }
  const real_range m = middle(x, 99.9);
  CHECK(m.high < 5);
  CHECK(m.high > 2.5);
  CHECK(m.low > -5);
  CHECK(m.low < -2.5);
  const real_range all = middle(x, 100);
  CHECK(all == real_range{-300, 1e6f});
}

TEST_CASE("middle: equal numbers are a range without width, nothing seen is none") {
  for (const float v : {0.0f, 3.0f, -0.1f, 1e9f, -1e9f, 0x1p-130f}) {
    const std::vector<float> same(100, v);
    CHECK(middle(same, 99) == real_range{v, v});
    CHECK(middle(same, 100) == real_range{v, v});
  }
  CHECK_FALSE(middle({}, 99).seen());
  CHECK(middle({7}, 50.1) == real_range{7, 7});
  // A ReLU's: most are zero.
  std::vector<float> open(100);
  open[3] = 2;
  CHECK(middle(open, 90).high < 0x1.2p-20f);
  CHECK(middle(open, 99.5).high == doctest::Approx(1.94).epsilon(0.05));
}
