// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/science/hessian.hpp"

#include <cmath>

#include <doctest/doctest.h>

using namespace cordee;

TEST_CASE("the largest eigenvalue of quadratics is found, also beside a more negative one") {
  // H = Q diag(d) Q with the reflection Q = I - 2 u u', and f's minimum away from w.
  const auto largest = [](std::vector<double> d, double tolerance = 1e-12) {
    std::vector<double> u(d.size());
    double squares = 0;
    for (std::size_t i = 0; i < d.size(); ++i) squares += (u[i] = 1 + 0.3 * double(i)) * u[i];
    const auto reflect = [&](std::vector<double> x) {
      const double along = 2 * science::dot(u, x) / squares;
      for (std::size_t i = 0; i < x.size(); ++i) x[i] -= along * u[i];
      return x;
    };
    const auto gradient = [&](const std::vector<double>& w) {
      std::vector<double> y = reflect(w);
      for (std::size_t i = 0; i < y.size(); ++i) y[i] *= d[i];
      return reflect(y);
    };
    const std::vector<double> w(d.size(), 0.5);
    return science::largest_eigenvalue(gradient, w, tolerance, 2000, 1e-5).eigenvalue;
  };
  // Differences of numbers below 10 with h = 1e-5: 10 * 2^-52 / 1e-5 = 2e-10, times a few.
  CHECK(std::abs(largest({1, 4, 2, 0.5, -1}) - 4) < 1e-8);
  CHECK(std::abs(largest({1, 3, 2, 0.5, -7}) - 3) < 1e-8);
  CHECK(std::abs(largest({-2, -5}) + 2) < 1e-8);
  CHECK(largest({0, 0, 0}) == 0);
  // In many dimensions a random vector's Rayleigh quotient changes little in a step, and is not yet
  // an eigenvalue. The error is that of the tolerance squared, over the gap: (1e-2 50)^2 / 30.
  std::vector<double> many(500, 0.01);
  many[7] = 50;
  many[8] = 20;
  many[9] = -60;
  CHECK(std::abs(largest(many, 1e-2) - 50) < 0.01);
}

TEST_CASE("the curvature of a network is that of second differences of its loss") {
  // Without kinks, so that every difference has a limit.
  using net = network<
      sequential<convolution<2, 3, 2>, batch_norm<identity>, global_average_pool, linear<3>>, fp64,
      cpu, direct, extent{1, 4, 4}, 3>;
  const synthetic data{.extent = {1, 4, 4}, .classes = 3, .samples = 24};
  loader feed{data,
              self_comm{},
              {.global_batch = 12, .seed = 1},
              pad_crop_flip{},
              normalize::measured(data)};
  science::sample_loss<net, decltype(feed)> sample(feed, 2);
  net initial;
  std::vector<double> w(net::plane_size());
  initial.initialize({w.data(), w.size()}, 1);

  const std::size_t n = w.size();
  const double h = 1e-3;
  const auto loss_at = [&](std::size_t i, double a, std::size_t j, double b) {
    std::vector<double> x = w;
    x[i] += a;
    x[j] += b;
    return sample.loss(x);
  };
  std::vector<std::size_t> numbers;  // the padding between segments has no curvature
  for (const segment& of : net::segments())
    for (std::size_t i = of.offset; i < of.end(); ++i) numbers.push_back(i);
  std::vector<double> hessian(n * n);
  for (const std::size_t i : numbers)
    for (const std::size_t j : numbers)
      if (j <= i)
        hessian[i * n + j] = hessian[j * n + i] = (loss_at(i, h, j, h) - loss_at(i, h, j, -h) -
                                                   loss_at(i, -h, j, h) + loss_at(i, -h, j, -h)) /
                                                  (4 * h * h);
  const auto product = [&](const std::vector<double>& v) {
    std::vector<double> y(n);
    for (std::size_t i = 0; i < n; ++i)
      y[i] = science::dot(std::span(hessian).subspan(i * n, n), v);
    return y;
  };
  const double expected = science::largest_eigenvalue(product, w, 1e-9, 5000, 1.0).eigenvalue;
  const auto gradient = [&](const std::vector<double>& x) { return sample.gradient(x); };
  const double found = science::largest_eigenvalue(gradient, w, 1e-9, 5000, 1e-5).eigenvalue;
  // Second differences err by a relative h^2 times a constant of fourth derivatives, and by
  // rounding, 2^-52 / h^2 = 2e-10 for an element.
  CHECK(expected > 0.01);
  CHECK(std::abs(found - expected) < 1e-4 * expected);
  // The default step and tolerance: gradients of about 1 err by 2^-52, the quotient by 1e-2
  // squared.
  const double usual = science::largest_eigenvalue(gradient, w).eigenvalue;
  CHECK(std::abs(usual - expected) < 1e-3 * expected);

  const std::vector<double> g = sample.gradient(w);
  double slope = 0;
  for (std::size_t i = 0; i < n; ++i)  // of the padding both are 0
    slope =
        std::max(slope, std::abs((loss_at(i, 1e-6, 0, 0) - loss_at(i, -1e-6, 0, 0)) / 2e-6 - g[i]));
  CHECK(slope < 1e-8);
}
