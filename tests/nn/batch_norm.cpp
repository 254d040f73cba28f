// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The layer; its arithmetic is ops/batch_norm.cpp's.
#include <cmath>

#include <cordee/nn/batch_norm.hpp>
#include <cordee/nn/sequential.hpp>

#include "tests/nn/lone.hpp"

using namespace cordee;

namespace {

constexpr extent image{3, 2, 4};
constexpr norm_settings zero{.gamma = 0}, pairs{.group = 2};

template <class L>
std::vector<double> running(lone<L, image>& at) {
  std::vector<double> all(at.of(2).begin(), at.of(2).end());
  all.insert(all.end(), at.of(3).begin(), at.of(3).end());
  return all;
}

/// Mean and unbiased variance of channel c over the samples from `first` on.
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
static_assert(batch_norm<relu, pairs>::settings.group == 2 && batch_norm<>::settings.gamma == 1);

TEST_CASE("batch_norm layer: four tensors of a channel each, the running ones no parameters") {
  using table = parameter_table<sequential<batch_norm<>, batch_norm<relu>>, image>;
  REQUIRE(table::segments.size() == 8);
  const char* names[] = {"bn1.weight",       "bn1.bias",         "bn2.weight",
                         "bn2.bias",         "bn1.running_mean", "bn1.running_var",
                         "bn2.running_mean", "bn2.running_var"};
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(table::segments[i].name == names[i]);
    CHECK(table::segments[i].shape == std::array{3, 0, 0, 0});
    CHECK(table::segments[i].what == (i >= 4       ? kind::statistic
                                      : i % 2 == 0 ? kind::scale
                                                   : kind::shift));
  }
  CHECK(table::totals.parameters == 12);
  CHECK(table::totals.macs == 0);
}

TEST_CASE("batch_norm layer: scales begin at gamma, variances at one, the others at zero") {
  const auto begins = []<class L>(L) {
    std::vector<double> means;
    for (const beginning b : parameter_table<L, image>::beginnings) {
      CHECK(b.variance == 0);
      means.push_back(b.mean);
    }
    return means;
  };
  CHECK(begins(batch_norm<>{}) == std::vector<double>{1, 0, 0, 1});
  CHECK(begins(batch_norm<relu, zero>{}) == std::vector<double>{0, 0, 0, 1});
}

TEST_CASE("batch_norm layer: training moves the running statistics a tenth of the way") {
  lone<batch_norm<>, image> at(5);
  at.publish();
  at.forward();
  const auto once = running(at);
  at.forward();
  const auto twice = running(at);
  for (std::size_t c = 0; c < 3; ++c) {
    const moments m = of_channel(at.x, c, 0, 5);
    CHECK(once[c] == doctest::Approx(0.1 * m.mean).epsilon(1e-12));
    CHECK(once[3 + c] == doctest::Approx(0.9 + 0.1 * m.variance).epsilon(1e-12));
    CHECK(twice[c] == doctest::Approx(0.9 * once[c] + 0.1 * m.mean).epsilon(1e-12));
    CHECK(twice[3 + c] == doctest::Approx(0.9 * once[3 + c] + 0.1 * m.variance).epsilon(1e-12));
  }
}

TEST_CASE("batch_norm layer: evaluation reads them and leaves them, whatever the batch") {
  lone<batch_norm<>, image> at(5), one(1);
  for (auto* l : {&at, &one}) {
    l->randomise();
    l->publish();
    for (std::size_t c = 0; c < 3; ++c) {
      l->of(2)[c] = static_cast<double>(c) - 1;
      l->of(3)[c] = static_cast<double>(c) + 2;
    }
  }
  const auto before = running(at);
  const auto y = at.forward(phase::evaluate);
  CHECK(running(at) == before);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t c = i / image.pixels() % 3;
    CHECK(y[i] ==
          doctest::Approx((at.x[i] - before[c]) / std::sqrt(before[3 + c] + 1e-5) * at.of(0)[c] +
                          at.of(1)[c])
              .epsilon(1e-12));
  }
  one.x.assign(at.x.begin(), at.x.begin() + static_cast<std::ptrdiff_t>(image.size()));
  const auto alone = one.forward(phase::evaluate);
  CHECK(std::equal(alone.begin(), alone.end(), y.begin()));
}

TEST_CASE("batch_norm layer: statistics of groups are each group's own, and the mean is kept") {
  lone<batch_norm<identity, pairs>, image> at(4);
  at.publish();
  const auto y = at.forward();
  const auto kept = running(at);
  for (std::size_t c = 0; c < 3; ++c) {
    double mean = 0, variance = 0;
    for (const std::size_t first : {0u, 2u}) {
      const moments in = of_channel(at.x, c, first, 2), out = of_channel(y, c, first, 2);
      CHECK(std::abs(out.mean) < 1e-12);
      CHECK(out.variance == doctest::Approx(16.0 / 15).epsilon(1e-4));
      mean += in.mean / 2;
      variance += in.variance / 2;
    }
    CHECK(kept[c] == doctest::Approx(0.1 * mean).epsilon(1e-12));
    CHECK(kept[3 + c] == doctest::Approx(0.9 + 0.1 * variance).epsilon(1e-12));
  }
}

TEST_CASE("batch_norm layer: with a ReLU in it, it is itself and a ReLU behind") {
  lone<batch_norm<relu>, image> fused(3);
  lone<sequential<batch_norm<>, relu>, image> apart(3);
  fused.randomise();
  apart.randomise();
  fused.publish();
  apart.publish();
  const auto y = fused.forward();
  CHECK(y == apart.forward());
  const auto dy = normal_numbers(y.size(), 9);
  const auto dx = fused.dx_of(dy), same = apart.dx_of(dy);
  for (std::size_t i = 0; i < dx.size(); ++i) CHECK(std::abs(dx[i] - same[i]) < 1e-13);
  for (const std::size_t k : {0u, 1u}) CHECK(fused.gradient_of(k) == apart.gradient_of(k));
}

TEST_CASE("batch_norm layer: with a scale of zero it gives its shift, and still hears") {
  lone<batch_norm<identity, zero>, image> at(3);
  for (std::size_t c = 0; c < 3; ++c) at.of(1)[c] = static_cast<double>(c);
  at.publish();
  const auto y = at.forward();
  for (std::size_t i = 0; i < y.size(); ++i)
    CHECK(y[i] == static_cast<double>(i / image.pixels() % 3));
  const auto dx = at.dx_of(normal_numbers(y.size(), 9));
  for (const double v : dx) CHECK(v == 0);
  for (const double g : at.gradient_of(0)) CHECK(g != 0);
}

TEST_CASE("batch_norm layer: gradients are derivatives, wherever the input's goes") {
  lone<batch_norm<>, image> plain(3);
  plain.randomise();
  plain.check_backward();
  lone<batch_norm<relu, pairs>, image> grouped(4);
  grouped.randomise();
  grouped.check_backward();
}

TEST_CASE("batch_norm layer: frozen, it trains as it evaluates, and its statistics are constants") {
  lone<batch_norm<relu, pairs>, image> at(3);
  at.randomise();
  at.publish();
  for (std::size_t c = 0; c < 3; ++c) {
    at.of(2)[c] = static_cast<double>(c) / 2 - 0.3;
    at.of(3)[c] = static_cast<double>(c) + 0.5;
  }
  at.combine = {[](void*, std::span<double>) { FAIL("nobody shares constants"); }, nullptr};
  const auto before = running(at), evaluated = at.forward(phase::evaluate);
  at.frozen = true;
  CHECK(at.forward() == evaluated);
  at.check_backward();  // by finite differences
  CHECK(running(at) == before);
  // One sample's gradient is no matter of another's.
  at.forward();
  std::vector<double> dy(evaluated.size());
  dy[0] = dy[9] = 1;
  const auto dx = at.dx_of(dy);
  for (std::size_t i = image.size(); i < dx.size(); ++i) CHECK(dx[i] == 0);
}

TEST_CASE("batch_norm layer: the hook is asked both ways in training, and not in evaluation") {
  lone<batch_norm<>, image> at(3);
  int calls = 0;
  at.combine = {[](void* n, std::span<double>) { ++*static_cast<int*>(n); }, &calls};
  at.publish();
  const auto dy = normal_numbers(at.forward(phase::evaluate).size(), 9);
  CHECK(calls == 0);
  at.forward();
  const int forward = calls;
  CHECK(forward > 0);
  at.backward(dy);
  CHECK(calls > forward);
}
