// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/schedule/gaussian_process.hpp>

using namespace cordee;
using namespace cordee::detail::schedule;

namespace {

bool near(double x, double y, double tolerance) { return std::abs(x - y) <= tolerance; }

// The inverse of a softplus.
double unsoftplus(double y) { return std::log(std::expm1(y)); }

}  // namespace

TEST_CASE("past_minimum_probability: golden") {
  // Of sigma [[.02, .01, 0], [.01, .02, .005], [0, .005, .02]].
  const gp_prediction p{{1, 0.8, 0.9}, {0.02, 0.02, 0.02}, {0, 0.005, 0.02}};
  CHECK(near(past_minimum_probability(p), 0.717824340091, 1e-12));
  CHECK(near(past_minimum_probability({{1, 0.9}, {0.02, 0.02}, {0, 0.02}}), 0.308757202078, 1e-12));
}

TEST_CASE("gaussian_process: golden posterior of two points") {
  gaussian_process g;
  CHECK(near(g.scale(), std::numbers::ln2, 1e-15));
  CHECK(near(g.noise(), 1e-3, 1e-15));
  g.numbers[0] = 1.5;
  const std::array x{0.0, 0.5}, y{2.0, 1.0};
  const std::array grid{0.0, 0.25, 1.0};
  const gp_prediction p = g.predict(x, y, grid);
  constexpr std::array mean{1.99924663898, 1.5, 1.4770585156};
  constexpr std::array variance{0.000998556604944, 0.415178224531, 0.691808452414};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(near(p.mean[i], mean[i], 1e-11));
    CHECK(near(p.variance[i], variance[i], 1e-11));
  }
  CHECK(p.with_last[2] == p.variance[2]);
}

TEST_CASE(
    "gaussian_process: the likelihood, its gradient, Adam's fit and predictions are torch's") {
  // tests/support/gaussian_process_goldens.py
  std::vector<double> x, y;
  gaussian_process g;
  for (int i = 0; i < 12; ++i) {
    x.push_back(i / 12.0);
    y.push_back((x.back() - 0.4) * (x.back() - 0.4) + 0.05 * std::sin(37 * x.back()));
    g.numbers[0] += y.back() / 12;
  }
  std::array<double, 3> gradient{};
  // 12 significant digits: K has a condition number below 12 s2 / noise = 1e4.
  CHECK(near(g.log_likelihood(x, y, gradient), 0.611779603522946, 1e-10));
  constexpr std::array expected{0.0447310487375638, -0.223543436168129, -0.0412674709250085};
  for (std::size_t i = 0; i < 3; ++i) CHECK(near(gradient[i], expected[i], 1e-10));
  g.fit(x, y, 100);
  constexpr std::array fitted{0.201051435701931, -1.02027937066384, -7.39402213179225};
  for (std::size_t i = 0; i < 3; ++i) CHECK(near(g.numbers[i], fitted[i], 1e-9));
  CHECK(g.numbers[9] == 100);
  const std::array grid{0.0, 0.3, 0.7, 1.0};
  const gp_prediction p = g.predict(x, y, grid);
  constexpr std::array mean{0.159753110527, 0.0109904240812, 0.0906285061407, 0.413702461207};
  constexpr std::array variance{0.0006717812022, 0.000381062859705, 0.000396141894914,
                                0.0111759396868};
  constexpr std::array with_last{-1.27503377927e-05, 2.22938626526e-05, 0.00042402455574,
                                 0.0111759396868};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(near(p.mean[i], mean[i], 1e-9));
    CHECK(near(p.variance[i], variance[i], 1e-9));
    CHECK(near(p.with_last[i], with_last[i], 1e-9));
  }
}

TEST_CASE("gaussian_process: the gradient is the difference quotient of the likelihood") {
  const std::array x{0.0, 0.1, 0.35, 0.8}, y{1.0, 0.5, 0.7, 0.2};
  gaussian_process g;
  g.numbers[0] = 0.4;
  g.numbers[1] = unsoftplus(0.3);
  g.numbers[2] = unsoftplus(0.05);
  std::array<double, 3> gradient{}, ignored{};
  g.log_likelihood(x, y, gradient);
  for (std::size_t i = 0; i < 3; ++i) {
    gaussian_process above = g, below = g;
    above.numbers[i] += 1e-5;
    below.numbers[i] -= 1e-5;
    const double slope =
        (above.log_likelihood(x, y, ignored) - below.log_likelihood(x, y, ignored)) / 2e-5;
    CHECK(near(slope, gradient[i], 1e-8));  // 1e-10 by the third derivative, 1e-11 by rounding
  }
}
