// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/cpu/histogram.hpp>
#include <cordee/ops/cpu/quantize.hpp>
#include <cordee/ops/mean_squared_error_range.hpp>

#include "tests/support/quantization_goldens.hpp"
#include "tests/support/relative.hpp"

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

std::vector<double> counts_of(const std::vector<float>& x) {
  std::vector<double> counts(histogram_bins::count);
  add_to_histogram(x.size(), x.data(), counts, {});
  return counts;
}
real_range chosen(const std::vector<float>& x) {
  return mean_squared_error_range{}.choose(counts_of(x), range_of(x.size(), x.data(), {}));
}
double square_error(const std::vector<float>& x, const real_range& range) {
  const auto q = fit_affine(range.low, range.high, unsigned_bytes);
  double sum = 0;
  for (const float v : x) {
    const double e = static_cast<double>(v) - static_cast<double>(q.fake_quantize(v));
    sum += e * e;
  }
  return sum / static_cast<double>(x.size());
}

}  // namespace

TEST_CASE("squared_error_of: s^2 / 12 inside the range, squares of distances outside") {
  // One bin, 1 .. 1.125 uniformly;
  // the grid of the range 0 .. 255 k has a whole number of steps in it.
  std::vector<double> counts(histogram_bins::count);
  counts[static_cast<std::size_t>(histogram_bins::index(1.0F))] = 1000;
  const real_range bin{1, 1.125F};
  const double step = 1.0 / 64;
  CHECK(squared_error_of(counts, bin, {0, static_cast<float>(255 * step)}) ==
        support::relative(1000 * step * step / 12, 1e-12));
  // Clipped at 0.5: the mean of (x - 1/2)^2 over the bin is ((5/8)^3 - (1/2)^3) / 3 * 8.
  CHECK(squared_error_of(counts, bin, {0, 0.5F}) ==
        support::relative(1000.0 * 8 / 3 * (125.0 / 512 - 1.0 / 8), 1e-6));
  // A point.
  CHECK(squared_error_of(counts, {1, 1}, {0, 0.5F}) == support::relative(250, 1e-6));
}

TEST_CASE("squared_error_of: is the error of the tensor within the bins' resolution") {
  for (const auto& g : support::quantization_goldens::activations) {
    INFO(g.name);
    const auto x = support::quantization_goldens::tensor(g.name);
    const real_range whole = range_of(x.size(), x.data(), {});
    const real_range half{whole.low / 2, whole.high / 2};
    // The largest number is 2h, if h is the distance behind the bound. Its bin's middle is half a
    // bin, 2h / 16, below it at most, which takes 1 - (7/8)^2 < 1/4 of the square away.
    CHECK(squared_error_of(counts_of(x), whole, half) / static_cast<double>(x.size()) ==
          support::relative(square_error(x, half), 0.25));
  }
}

TEST_CASE("mean_squared_error_range: uniform numbers are kept; of a lone outlier, what pays") {
  std::vector<float> x;
  for (int i = 0; i <= 4096; ++i) x.push_back(static_cast<float>(i) / 1024 - 2);
  CHECK(chosen(x) == real_range{-2, 2});
  // n numbers -2 .. 2 and one of 64: E(T) = ((2 + T) / 255)^2 / 12 + (64 - T)^2 / n is least where
  // (2 + T) / (12 255^2) = (64 - T) / n, for n = 4,097,000 at T = 8.55; 8 and 9 are edges of bins.
  auto counts = counts_of(x);
  for (double& c : counts) c *= 1000;
  counts[static_cast<std::size_t>(histogram_bins::index(64))] += 1;
  const real_range range = mean_squared_error_range{}.choose(counts, {-2, 64});
  CHECK(range.low == -2);
  CHECK((range.high == 8 || range.high == 9));
}

TEST_CASE(
    "mean_squared_error_range: never worse than torch.ao's HistogramObserver by a bin's width") {
  for (const auto& g : support::quantization_goldens::activations) {
    INFO(g.name);
    const auto x = support::quantization_goldens::tensor(g.name);
    // A range that is a bin's width (1/8) too large has (9/8)^2 times the error.
    CHECK(square_error(x, chosen(x)) <= g.histogram_error * 81 / 64);
  }
}

TEST_CASE("mean_squared_error_range: degenerate tensors") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  const std::vector<double> none(histogram_bins::count);
  CHECK(!mean_squared_error_range{}.choose(none, {}).has_values());
  CHECK(chosen({0, 0, 0}) == real_range{0, 0});
  CHECK(chosen({3, 3}) == real_range{3, 3});
  CHECK(chosen({-3}) == real_range{-3, -3});
  CHECK(!std::isfinite(chosen({-1, inf}).high));  // its scale is NaN, and so is what it quantizes
  CHECK(chosen({1e30F, 0}).high == 1e30F);
  CHECK(chosen({1e-30F, 0}).high <= 1e-30F);
}
