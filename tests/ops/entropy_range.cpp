// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/cpu/histogram.hpp>
#include <cordee/ops/cpu/quantize.hpp>
#include <cordee/ops/entropy_range.hpp>

#include "tests/support/quantization_goldens.hpp"

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

real_range chosen(const std::vector<float>& x) {
  std::vector<double> counts(histogram_bins::count);
  add_to_histogram(x.size(), x.data(), counts, {});
  return entropy_range{}.choose(counts, range_of(x.size(), x.data(), {}));
}

}  // namespace

TEST_CASE("entropy_bins: the bounds of NVIDIA's modelopt") {
  for (const auto& g : support::quantization_goldens::entropies) {
    INFO(g.name, " ", g.levels);
    auto h = support::quantization_goldens::histogram(g.name);
    CHECK(entropy_bins(h, g.levels) == g.bins);
  }
}

TEST_CASE("entropy_range: modelopt's bound, within a bin's width") {
  for (const auto& g : support::quantization_goldens::entropy_bounds) {
    INFO(g.name);
    const auto x = support::quantization_goldens::tensor(g.name);
    const real_range range = chosen(x);
    const double bound = std::max(-1.0 * range.low, 1.0 * range.high);
    // modelopt counts magnitudes in 2,048 bins of equal width. Ours are at most an eighth of their
    // numbers wide and uniform inside, so a magnitude is known to an eighth of it.
    CHECK(std::abs(bound - 1.0 * g.bound) <= 1.0 * g.bound / 8);
  }
}

TEST_CASE("relative_entropy: in closed form") {
  // Two levels of two bins: means 2 and 6. No numbers beyond.
  const std::vector<double> h{1, 3, 6, 6, 0, 4};
  const double inside = 16;
  CHECK(relative_entropy({h.data(), 4}, inside, 4, 2) ==
        doctest::Approx((std::log(1.0 / 2) + 3 * std::log(3.0 / 2)) / 16).epsilon(1e-14));
  // The 4 numbers beyond are in P's last bin: P = (1, 3, 6, 10) / 20, Q = (2, 2, 6, 6) / 16.
  CHECK(relative_entropy(h, 20, 4, 2) ==
        doctest::Approx(0.05 * std::log(0.4) + 0.15 * std::log(1.2) + 0.3 * std::log(0.8) +
                        0.5 * std::log(0.5 / 0.375))
            .epsilon(1e-14));
  // An empty last bin cannot take them.
  CHECK(relative_entropy(h, 20, 5, 2) == std::numeric_limits<double>::infinity());
  // Empty bins are no part of a level's mean: exact.
  CHECK(relative_entropy(std::vector<double>{0, 5, 7, 0}, 12, 4, 2) == 0);
}

TEST_CASE("entropy_range: numbers that fit their levels are kept, a far tail is clipped") {
  std::vector<float> x;
  for (int i = 1; i <= 4096; ++i) x.push_back(static_cast<float>(i) / 1024);
  CHECK(chosen(x).high == 4);
  // Quantiles of a distribution with the density 1 / (1 + x)^2: with all 2048 bins, of 4 each, the
  // steep ones at zero share a level.
  std::vector<float> tail, both;
  for (int i = 0; i < 4096; ++i) {
    const double u = (i + 0.5) / 4096;
    tail.push_back(static_cast<float>(u / (1 - u)));
    both.push_back((i % 2 == 0 ? -1.0F : 1.0F) * tail.back());
  }
  REQUIRE(tail.back() == doctest::Approx(8191));
  CHECK(chosen(tail).low == tail.front());
  CHECK(chosen(tail).high < 8191.0F / 4);
  // Of both signs, bytes have half as many levels on each side.
  CHECK(chosen(both).high < chosen(tail).high);
  CHECK(chosen(both).low == -chosen(both).high);
}

TEST_CASE("entropy_range: degenerate tensors") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  const std::vector<double> none(histogram_bins::count);
  CHECK(!entropy_range{}.choose(none, {}).has_values());
  CHECK(chosen({0, 0, 0}) == real_range{0, 0});
  CHECK(chosen({3, 3}) == real_range{3, 3});
  CHECK(!std::isfinite(chosen({-1, inf}).high));
  CHECK(chosen({1e30F, 0}).high == 1e30F);
}
