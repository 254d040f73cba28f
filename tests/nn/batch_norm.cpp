// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The layer; its arithmetic is tested in tests/ops/.
#include <cmath>
#include <span>
#include <string>
#include <type_traits>

#include <cordee/nn/batch_norm.hpp>
#include <cordee/nn/sequential.hpp>

#include "tests/nn/layer_fixture.hpp"

using namespace cordee;
using namespace cordee::detail::core;
using namespace cordee::detail::nn;

namespace {

constexpr extent image{3, 2, 4};
constexpr batch_norm_options zero{.gamma = 0}, pairs{.ghost_batch = 2};

template <class L>
std::vector<double> running(layer_fixture<L, image>& fixture) {
  std::vector<double> all(fixture.of(2).begin(), fixture.of(2).end());
  all.insert(all.end(), fixture.of(3).begin(), fixture.of(3).end());
  return all;
}

/// Sums of at most 40 terms of at most 4 in another order.
bool close(double a, double b) { return std::abs(a - b) <= 40 * 4 * 0x1p-52; }

/// Mean and unbiased variance of channel c over `samples` samples from `first` on.
struct moments {
  double mean = 0, variance = 0;
};
moments of_channel(const std::vector<double>& x, std::size_t c, std::size_t first,
                   std::size_t samples) {
  moments m;
  const double n = static_cast<double>(samples * image.pixels());
  const auto each = [&](const auto& f) {
    for (std::size_t s = first; s < first + samples; ++s)
      for (std::size_t i = 0; i < image.pixels(); ++i)
        f(x[s * image.size() + c * image.pixels() + i]);
  };
  each([&](double v) { m.mean += v / n; });
  each([&](double v) { m.variance += (v - m.mean) * (v - m.mean) / (n - 1); });
  return m;
}

}  // namespace

static_assert(Layer<batch_norm<>> && Layer<batch_norm<relu, zero>>);
static_assert(batch_norm<>::out(image) == image);
static_assert(std::same_as<batch_norm<relu>::activation, relu> &&
              std::same_as<batch_norm<>::activation, identity>);
static_assert(batch_norm<relu, pairs>::options.ghost_batch == 2 &&
              batch_norm<>::options.gamma == 1);

TEST_CASE("batch_norm layer: four tensors, of which the running statistics are not parameters") {
  using table = parameter_table<sequential<batch_norm<>, batch_norm<relu>>, image>;
  REQUIRE(table::segments.size() == 8);
  const char* names[] = {"bn1.weight",       "bn1.bias",         "bn2.weight",
                         "bn2.bias",         "bn1.running_mean", "bn1.running_var",
                         "bn2.running_mean", "bn2.running_var"};
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(table::segments[i].name == names[i]);
    CHECK(table::segments[i].shape == std::array<int, 6>{3});
    CHECK(table::segments[i].kind == (i >= 4       ? kind::statistic
                                      : i % 2 == 0 ? kind::scale
                                                   : kind::shift));
  }
  CHECK(table::totals.parameters == 12);
  CHECK(table::totals.macs == 0);
}

TEST_CASE("batch_norm layer: initially scales are gamma, variances one, the others zero") {
  const auto initializer_of = []<class L>(L) {
    std::vector<double> means;
    for (const initializer b : parameter_table<L, image>::initializers) {
      CHECK(b.variance == 0);
      means.push_back(b.mean);
    }
    return means;
  };
  CHECK(initializer_of(batch_norm<>{}) == std::vector<double>{1, 0, 0, 1});
  CHECK(initializer_of(batch_norm<relu, zero>{}) == std::vector<double>{0, 0, 0, 1});
}

TEST_CASE("batch_norm layer: training updates the running statistics with momentum 0.1") {
  layer_fixture<batch_norm<>, image> fixture(5);
  fixture.pack_parameters();
  fixture.forward();
  const auto once = running(fixture);
  fixture.forward();
  const auto twice = running(fixture);
  for (std::size_t c = 0; c < 3; ++c) {
    const moments m = of_channel(fixture.x, c, 0, 5);
    CHECK(close(once[c], 0.1 * m.mean));
    CHECK(close(once[3 + c], 0.9 + 0.1 * m.variance));
    CHECK(close(twice[c], 0.9 * once[c] + 0.1 * m.mean));
    CHECK(close(twice[3 + c], 0.9 * once[3 + c] + 0.1 * m.variance));
  }
}

TEST_CASE("batch_norm layer: evaluation normalizes by the running statistics, for any batch") {
  layer_fixture<batch_norm<>, image> fixture(5), one(1);
  for (auto* l : {&fixture, &one}) {
    l->randomize();
    l->pack_parameters();
    for (std::size_t c = 0; c < 3; ++c) {
      l->of(2)[c] = static_cast<double>(c) - 1;
      l->of(3)[c] = static_cast<double>(c) + 2;
    }
  }
  const auto before = running(fixture);
  const auto y = fixture.forward(phase::evaluate);
  CHECK(running(fixture) == before);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t c = i / image.pixels() % 3;
    CHECK(close(y[i],
                (fixture.x[i] - before[c]) / std::sqrt(before[3 + c] + 1e-5) * fixture.of(0)[c] +
                    fixture.of(1)[c]));
  }
  one.x.assign(fixture.x.begin(), fixture.x.begin() + static_cast<std::ptrdiff_t>(image.size()));
  const auto single = one.forward(phase::evaluate);
  CHECK(std::equal(single.begin(), single.end(), y.begin()));
}

TEST_CASE(
    "batch_norm layer: each ghost batch has its statistics, the running ones take their mean") {
  layer_fixture<batch_norm<identity, pairs>, image> fixture(4);
  fixture.pack_parameters();
  const auto y = fixture.forward();
  const auto updated = running(fixture);
  for (std::size_t c = 0; c < 3; ++c) {
    double mean = 0, variance = 0;
    for (const std::size_t first : {0u, 2u}) {
      const moments in = of_channel(fixture.x, c, first, 2), out = of_channel(y, c, first, 2);
      CHECK(std::abs(out.mean) < 1e-12);
      CHECK(out.variance == support::relative(16.0 / 15, 1e-5 / (in.variance * 15 / 16)));
      mean += in.mean / 2;
      variance += in.variance / 2;
    }
    CHECK(close(updated[c], 0.1 * mean));
    CHECK(close(updated[3 + c], 0.9 + 0.1 * variance));
  }
}

TEST_CASE("batch_norm layer: a fused ReLU equals a separate one") {
  layer_fixture<batch_norm<relu>, image> fused(3);
  layer_fixture<sequential<batch_norm<>, relu>, image> separate(3);
  fused.randomize();
  separate.randomize();
  fused.pack_parameters();
  separate.pack_parameters();
  const auto y = fused.forward();
  CHECK(y == separate.forward());
  const auto dy = normal_numbers(y.size(), 9);
  const auto dx = fused.dx_of(dy), same = separate.dx_of(dy);
  for (std::size_t i = 0; i < dx.size(); ++i) CHECK(std::abs(dx[i] - same[i]) < 1e-13);
  for (const std::size_t k : {0u, 1u}) CHECK(fused.gradient_of(k) == separate.gradient_of(k));
}

TEST_CASE(
    "batch_norm layer: with a scale of zero the output is the shift, and the scale has a "
    "gradient") {
  layer_fixture<batch_norm<identity, zero>, image> fixture(3);
  for (std::size_t c = 0; c < 3; ++c) fixture.of(1)[c] = static_cast<double>(c);
  fixture.pack_parameters();
  const auto y = fixture.forward();
  for (std::size_t i = 0; i < y.size(); ++i)
    CHECK(y[i] == static_cast<double>(i / image.pixels() % 3));
  const auto dx = fixture.dx_of(normal_numbers(y.size(), 9));
  for (const double v : dx) CHECK(v == 0);
  for (const double g : fixture.gradient_of(0)) CHECK(g != 0);
}

TEST_CASE("batch_norm layer: gradients are derivatives for every target of dx") {
  layer_fixture<batch_norm<>, image> plain(3);
  plain.randomize();
  plain.check_backward();
  layer_fixture<batch_norm<relu, pairs>, image> grouped(4);
  grouped.randomize();
  grouped.check_backward();
}

TEST_CASE(
    "batch_norm layer: with frozen statistics training equals evaluation, gradients included") {
  layer_fixture<batch_norm<relu, pairs>, image> fixture(3);
  fixture.randomize();
  fixture.pack_parameters();
  for (std::size_t c = 0; c < 3; ++c) {
    fixture.of(2)[c] = static_cast<double>(c) / 2 - 0.3;
    fixture.of(3)[c] = static_cast<double>(c) + 0.5;
  }
  fixture.batch_norm_allreduce = {
      [](void*, std::span<double>) { FAIL("constant statistics are not reduced"); }, nullptr};
  const auto before = running(fixture), evaluated = fixture.forward(phase::evaluate);
  fixture.frozen_statistics = true;
  CHECK(fixture.forward() == evaluated);
  fixture.check_backward();  // by finite differences
  CHECK(running(fixture) == before);
  // The gradients of samples are independent.
  fixture.forward();
  std::vector<double> dy(evaluated.size());
  dy[0] = dy[9] = 1;
  const auto dx = fixture.dx_of(dy);
  for (std::size_t i = image.size(); i < dx.size(); ++i) CHECK(dx[i] == 0);
}
