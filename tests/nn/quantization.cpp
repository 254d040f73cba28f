// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/quantization.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/support/quantization_goldens.hpp"
#include "tests/support/relative.hpp"

using namespace cordee;
using namespace cordee::detail;
using namespace cordee::detail::nn;
using support::relative;

namespace {
constexpr float inf = std::numeric_limits<float>::infinity();
static_assert(std::is_copy_assignable_v<quantization_options>,
              "options are copied to several networks");

quantization_options two_layers() {
  quantization_options q;
  q.observer.layers.push_back({.name = "first", .low_offset = 0, .high_offset = 1});
  q.observer.layers.push_back({.name = "second", .low_offset = 2, .high_offset = 3});
  return q;
}
}  // namespace

TEST_CASE("ranges: the first step sets a range, later ones move it by `averaging`") {
  auto q = two_layers();
  std::vector<float> plane{inf, -inf, inf, -inf};
  q.observer.layers[0].observed = {-2, 4};
  q.update_ranges(plane.data(), q.observer.take_minima(true), 0);
  CHECK(plane == std::vector<float>{-2, 4, inf, -inf});  // without observations the range stays
  q.observer.layers[0].observed = {-3, 6};
  q.observer.layers[1].observed = {0, 1};
  q.averaging = 0.25;
  q.update_ranges(plane.data(), q.observer.take_minima(true), 0);
  CHECK(plane == std::vector<float>{-2.25f, 4.5f, 0, 1});
  CHECK_FALSE(q.observer.layers[0].observed.has_values());  // taken
}

TEST_CASE("ranges: after five steps they are torch.ao's MovingAverageMinMaxObserver's") {
  auto q = two_layers();
  std::vector<float> plane{inf, -inf, inf, -inf};
  double low_bar = 0, high_bar = 0;
  for (const auto& g : support::quantization_goldens::running_ranges) {
    INFO(g.name);
    const auto x = support::quantization_goldens::tensor(g.name);
    q.observer.layers[0].observed = {std::ranges::min(x), std::ranges::max(x)};
    // A step rounds a number to float once, torch.ao's also 0.01, a difference and a product, all
    // by 2^-24 of themselves; a tensor's logarithms may differ by 2^-23.
    const auto roundings = [](float running, float observed) {
      return 0x1p-22 * (std::abs(double{running}) + 0.04 * std::abs(double{observed}));
    };
    low_bar += roundings(g.low, std::ranges::min(x));
    high_bar += roundings(g.high, std::ranges::max(x));
    q.update_ranges(plane.data(), q.observer.take_minima(true), 0);
    CHECK(std::abs(double{plane[0]} - double{g.low}) <= low_bar);
    CHECK(std::abs(double{plane[1]} - double{g.high}) <= high_bar);
    const auto k = ops::fit_affine(plane[0], plane[1], ops::unsigned_bytes);
    CHECK(k.zero_point == g.zero_point);
    CHECK(std::abs(double{k.scale} - double{g.scale}) <=
          (low_bar + high_bar) / 255 + 0x1p-23 * double{g.scale});
  }
}

TEST_CASE("ranges: frozen ranges stay, but an empty one is set") {
  auto q = two_layers();
  q.freeze_ranges_at = 2;
  std::vector<float> plane{-1, 1, inf, -inf};
  for (auto& layer : q.observer.layers) layer.observed = {-5, 5};
  q.update_ranges(plane.data(), q.observer.take_minima(true), 2);
  CHECK(plane == std::vector<float>{-1, 1, -5, 5});
  for (auto& layer : q.observer.layers) layer.observed = {-9, 9};
  q.update_ranges(plane.data(), q.observer.take_minima(true), 1.99);
  CHECK(plane[0] < -1);
}

TEST_CASE("ranges: an epoch of freezing that is NaN, hence never comes, is refused") {
  auto q = two_layers();
  q.freeze_ranges_at = -inf;
  q.check();
  q.freeze_ranges_at = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_WITH_AS(q.check(), doctest::Contains("quantization.freeze_ranges_at is NaN"),
                       usage_error);
}

TEST_CASE("ranges: a step that does not count has empty observations") {
  auto q = two_layers();
  q.observer.layers[0].observed = {-5, 5};
  for (const double v : q.observer.take_minima(false)) CHECK(v == static_cast<double>(inf));
  CHECK_FALSE(q.observer.layers[0].observed.has_values());
  CHECK_THROWS_AS(q.update_ranges<float>(nullptr, std::array<double, 2>{}, 0), usage_error);
}

TEST_CASE("ranges: a percentile drops the tails of all inputs of a step") {
  auto q = two_layers();
  q.percentile = 90;
  std::vector<float> x(100, 1.0f), outlier{50, -50, 1, 1, 1, 1};
  q.observe(0, {1, 1}, x.size(), x.data(), {});
  q.observe(0, {-50, 50}, outlier.size(), outlier.data(), {});
  std::vector<float> other(100, 0.25f);
  other[7] = 40;
  q.observe(1, {0.25f, 40}, other.size(), other.data(), {});
  auto minima = q.observer.take_minima(true);
  const auto counts = q.observer.take_histograms(true);
  CHECK(minima[0] == -50);
  q.clip_to_percentile(minima, counts);
  // Layer 0: 104 of 106 inputs are in the bin [1, 9/8), one below, one above; 10.6 are dropped at
  // each end. Layer 1: 99 of 100 are in [1/4, 9/32), one above; 10 are dropped. Results are floats.
  CHECK(minima[0] == relative(1 + 9.6 / 104 / 8, 0x1p-23));
  CHECK(-minima[1] == relative(9. / 8 - 9.6 / 104 / 8, 0x1p-23));
  CHECK(minima[2] == relative(1. / 4 + 10. / 99 / 32, 0x1p-23));
  CHECK(-minima[3] == relative(9. / 32 - 9. / 99 / 32, 0x1p-23));
  for (const double c : q.observer.take_histograms(true)) CHECK(c == 0);  // taken
  q.observe(0, {1, 1}, x.size(), x.data(), {});
  for (const double c : q.observer.take_histograms(false)) CHECK(c == 0);
  CHECK_THROWS_AS(q.clip_to_percentile(minima, std::array<double, 3>{}), usage_error);
  for (const double invalid : {50.0, 100.5, std::nan("")}) {
    q.percentile = invalid;
    CHECK_THROWS_AS(q.clip_to_percentile(minima, counts), usage_error);
  }
  q.percentile = 100;
  q.observe(0, {1, 1}, x.size(), x.data(), {});
  CHECK(q.observer.counts.empty());  // no histogram is needed
}

TEST_CASE("ranges: a network in int8 has two more statistics for each convolution") {
  using layers = resnet_layers<8, resnet_options{}>;
  constexpr auto with = parameter_table<layers, extent{3, 32, 32}, true>::totals,
                 without = parameter_table<layers, extent{3, 32, 32}>::totals;
  CHECK(with.statistics == without.statistics + 2 * 7);
  CHECK(with.trainable_end == without.trainable_end);
  CHECK(with.parameters == without.parameters);
  const auto& table = parameter_table<layers, extent{3, 32, 32}, true>::segments;
  CHECK(table[with.trainable].name == "conv1.input_min");
  CHECK(table[with.trainable + 1].name == "conv1.input_max");
  CHECK(table[with.trainable].kind == kind::statistic);
  static_assert(std::is_empty_v<quantization_of<fp32, cpu>>);
}
