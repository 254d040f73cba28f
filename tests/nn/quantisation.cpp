// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/quantisation.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/int8.hpp>

using namespace cordee;

namespace {
constexpr float inf = std::numeric_limits<float>::infinity();
static_assert(std::is_copy_assignable_v<quantisation_settings>, "one for several networks");

quantisation_settings two_layers() {
  quantisation_settings q;
  q.watch.layers.push_back({.name = "first", .low = 0, .high = 1});
  q.watch.layers.push_back({.name = "second", .low = 2, .high = 3});
  return q;
}
}  // namespace

TEST_CASE("ranges: the first counts whole, the next ones by their share") {
  auto q = two_layers();
  std::vector<float> plane{inf, -inf, inf, -inf};
  q.watch.layers[0].seen = {-2, 4};
  q.learn(plane.data(), q.watch.take(true), 0);
  CHECK(plane == std::vector<float>{-2, 4, inf, -inf});  // what saw nothing stays
  q.watch.layers[0].seen = {-3, 6};
  q.watch.layers[1].seen = {0, 1};
  q.averaging = 0.25;
  q.learn(plane.data(), q.watch.take(true), 0);
  CHECK(plane == std::vector<float>{-2.25f, 4.5f, 0, 1});
  CHECK_FALSE(q.watch.layers[0].seen.seen());  // taken
}

TEST_CASE("ranges: frozen ones stay, and one that nobody saw before is still learned") {
  auto q = two_layers();
  q.freeze_ranges_at = 2;
  std::vector<float> plane{-1, 1, inf, -inf};
  for (auto& one : q.watch.layers) one.seen = {-5, 5};
  q.learn(plane.data(), q.watch.take(true), 2);
  CHECK(plane == std::vector<float>{-1, 1, -5, 5});
  for (auto& one : q.watch.layers) one.seen = {-9, 9};
  q.learn(plane.data(), q.watch.take(true), 1.99);
  CHECK(plane[0] < -1);
}

TEST_CASE("ranges: a step that does not count says nothing") {
  auto q = two_layers();
  q.watch.layers[0].seen = {-5, 5};
  for (const double v : q.watch.take(false)) CHECK(v == static_cast<double>(inf));
  CHECK_FALSE(q.watch.layers[0].seen.seen());
  CHECK_THROWS_AS(q.learn<float>(nullptr, std::array<double, 2>{}, 0), misuse);
}

TEST_CASE("ranges: a percentile leaves out what few numbers are, whatever passes they came in") {
  auto q = two_layers();
  q.percentile = 90;
  std::vector<float> x(100, 1.0f), outlier{50, -50, 1, 1, 1, 1};
  q.note(0, {1, 1}, x.size(), x.data(), {});
  q.note(0, {-50, 50}, outlier.size(), outlier.data(), {});
  std::vector<float> other(100, 0.25f);
  other[7] = 40;
  q.note(1, {0.25f, 40}, other.size(), other.data(), {});
  auto minima = q.watch.take(true);
  const auto counts = q.watch.take_counts(true);
  CHECK(minima[0] == -50);
  q.cut(minima, counts);
  CHECK(minima[0] == doctest::Approx(1).epsilon(0.13));
  CHECK(-minima[1] == doctest::Approx(1).epsilon(0.13));
  CHECK(minima[2] == doctest::Approx(0.25).epsilon(0.13));
  CHECK(-minima[3] == doctest::Approx(0.25).epsilon(0.13));
  for (const double c : q.watch.take_counts(true)) CHECK(c == 0);  // taken
  q.note(0, {1, 1}, x.size(), x.data(), {});
  for (const double c : q.watch.take_counts(false)) CHECK(c == 0);
  CHECK_THROWS_AS(q.cut(minima, std::array<double, 3>{}), misuse);
  for (const double none : {50.0, 100.5, std::nan("")}) {
    q.percentile = none;
    CHECK_THROWS_AS(q.cut(minima, counts), misuse);
  }
  q.percentile = 100;
  q.note(0, {1, 1}, x.size(), x.data(), {});
  CHECK(q.watch.counts.empty());  // nobody asks for it
}

TEST_CASE("ranges: a network in int8 has two statistics a convolution more, others have none") {
  using layers = resnet_layers<8, shape{}>;
  constexpr auto with = parameter_table<layers, extent{3, 32, 32}, true>::totals,
                 without = parameter_table<layers, extent{3, 32, 32}>::totals;
  CHECK(with.statistics == without.statistics + 2 * 7);
  CHECK(with.trainable_end == without.trainable_end);
  CHECK(with.parameters == without.parameters);
  const auto& table = parameter_table<layers, extent{3, 32, 32}, true>::segments;
  CHECK(table[with.trainable].name == "conv1.input_min");
  CHECK(table[with.trainable + 1].name == "conv1.input_max");
  CHECK(table[with.trainable].what == kind::statistic);
  static_assert(std::is_empty_v<quantisation_of<fp32, cpu>>);
}
