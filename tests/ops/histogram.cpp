// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/ops/cpu/histogram.hpp>
#include <cordee/ops/cpu/quantize.hpp>
#include <cordee/ops/histogram.hpp>

#include "tests/support/quantization_goldens.hpp"

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

real_range percentile(const std::vector<float>& x, double percent) {
  std::vector<double> counts(histogram_bins::count);
  add_to_histogram(x.size(), x.data(), counts, {});
  return percentile_range(counts, range_of(x.size(), x.data(), {}), percent);
}
std::vector<float> normals(std::size_t n) {
  random_sequence draw(5, purpose::test, 0, 0);
  std::vector<float> x(n);
  for (float& v : x) v = static_cast<float>(draw.normal());
  return x;
}
float bin_width(float x) {
  const int b = histogram_bins::index(x);
  return histogram_bins::lower_edge(b + 1) - histogram_bins::lower_edge(b);
}

}  // namespace

TEST_CASE("histogram_bins: every number lies in its bin, whose width is at most an eighth of it") {
  for (int b = 1; b < histogram_bins::count; ++b)
    CHECK(histogram_bins::lower_edge(b - 1) < histogram_bins::lower_edge(b));
  auto x = normals(1000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::ldexp(x[i], static_cast<int>(i % 24) - 14);
  for (const float v : x) {
    const int b = histogram_bins::index(v);
    CHECK(histogram_bins::lower_edge(b) <= v);
    CHECK(v <= histogram_bins::lower_edge(b + 1));
    CHECK(bin_width(v) <= std::max(0.126f * std::abs(v), 0x1.3p-20f));
  }
}

TEST_CASE("histogram_bins: numbers outside the bins' range fall into the innermost or outermost") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  CHECK(histogram_bins::index(0.0f) == histogram_bins::zero);
  CHECK(histogram_bins::index(0x1p-140f) == histogram_bins::zero);
  CHECK(histogram_bins::index(-0.0f) == histogram_bins::zero - 1);
  CHECK(histogram_bins::index(4095) == histogram_bins::count - 1);
  CHECK(histogram_bins::index(inf) == histogram_bins::count - 1);
  CHECK(histogram_bins::index(-inf) == 0);
  CHECK(histogram_bins::index(std::nanf("")) == histogram_bins::count - 1);
}

TEST_CASE(
    "percentile_range: within a bin of the sorted numbers; a higher percentile is no narrower") {
  const auto x = normals(20011);
  auto sorted = x;
  std::sort(sorted.begin(), sorted.end());
  real_range narrower{0, 0};
  for (const double percent : {60.0, 90.0, 99.0, 99.9, 99.99, 100.0}) {
    CAPTURE(percent);
    const real_range range = percentile(x, percent);
    CHECK(range.low <= narrower.low);
    CHECK(range.high >= narrower.high);
    narrower = range;
    // The number that as many are beyond lies in the bin in which the percentile is interpolated.
    const auto cut = static_cast<std::size_t>(static_cast<double>(x.size()) * (1 - percent / 100));
    const float low = sorted[cut], high = sorted[x.size() - 1 - cut];
    CHECK(std::abs(range.low - low) <= bin_width(low));
    CHECK(std::abs(range.high - high) <= bin_width(high));
  }
  CHECK(narrower == range_of(x.size(), x.data(), {}));
}

TEST_CASE("percentile_range: linear inside a bin") {
  // Eight numbers of 1 .. 9/8 and two of 2 .. 9/4: a tenth off the top is half of those two.
  std::vector<float> x(8, 1.0f);
  x.insert(x.end(), {2.0f, 2.25f - 0x1p-20f});
  const real_range range = percentile(x, 90);
  CHECK(std::abs(range.high - 2.125f) <= 0x1p-20f);
  CHECK(std::abs(range.low - (1 + 0.125f / 8)) <= 0x1p-20f);
}

TEST_CASE("percentile_range: outliers are cut, in the outermost bins too") {
  auto x = normals(10000);
  for (std::size_t i = 0; i < 5; ++i) {
    x[100 * i] = 1e6f;  // beyond 2^12
    x[100 * i + 1] = -300;
  }
  const real_range range = percentile(x, 99.9);
  CHECK(range.high < 5);
  CHECK(range.high > 2.5);
  CHECK(range.low > -5);
  CHECK(range.low < -2.5);
  CHECK(percentile(x, 100) == real_range{-300, 1e6f});
}

TEST_CASE("percentile_range: equal numbers have a range of width 0, no numbers an empty one") {
  for (const float v : {0.0f, 3.0f, -0.1f, 1e9f, -1e9f, 0x1p-130f}) {
    const std::vector<float> same(100, v);
    CHECK(percentile(same, 99) == real_range{v, v});
    CHECK(percentile(same, 100) == real_range{v, v});
  }
  CHECK_FALSE(percentile({}, 99).has_values());
  CHECK(percentile({7}, 50.1) == real_range{7, 7});
  // As after a ReLU: most are zero.
  std::vector<float> sparse(100);
  sparse[3] = 2;
  CHECK(percentile(sparse, 90).high < 0x1.2p-20f);
  CHECK(percentile(sparse, 99.5).high == 2);  // its bin ends at the largest number
}

TEST_CASE("percentile_range: onnxruntime's percentiles, within the widths of both bins") {
  for (const auto& g : support::quantization_goldens::percentiles) {
    INFO(g.name, " ", g.percent);
    const auto x = support::quantization_goldens::tensor(g.name);
    const real_range all = range_of(x.size(), x.data(), {}), range = percentile(x, g.percent);
    // The same quantile lies in our bin, of at most an eighth of its numbers and of 2^-19 at zero,
    // and in one of theirs, of 2,048 from minus the largest magnitude to it; a bound is anywhere in
    // its bin.
    const double theirs = 2 * std::max(-1.0 * all.low, 1.0 * all.high) / 2048;
    for (const auto& [bound, golden] : {std::pair{range.low, g.low}, {range.high, g.high}})
      CHECK(std::abs(1.0 * bound - 1.0 * golden) <= std::abs(1.0 * bound) / 8 + 0x1p-19 + theirs);
  }
}
