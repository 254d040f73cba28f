// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/cpu/batch_norm.hpp>
#include <cordee/testing/gradient.hpp>

#include "tests/support/batch_norm_fixture.hpp"
#include "tests/support/further_types.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

template <int Block, class E>
struct norm_case {
  static constexpr int V = Block;
  using epilogue = E;
};

template <class L>
void check_all_gradients(L& bn) {
  const auto weight = bn.padded(normal_numbers(bn.x.size(), 99));
  const auto loss = [&] {
    bn.forward();
    return std::inner_product(bn.y.begin(), bn.y.end(), weight.begin(), 0.0);
  };
  loss();
  auto dy = weight;
  const auto dx = bn.backward(dy);
  const auto check = [&](std::span<double> point, std::span<const double> gradient) {
    const gradient_report report = check_gradient(point, gradient, loss);
    CHECK(report.compared == point.size());
    CHECK_MESSAGE(report.max_error < 1e-6, report.describe());
  };
  check(bn.x, dx);
  const auto channels = static_cast<std::size_t>(bn.p.in.channels);
  check({bn.gamma.data(), channels}, bn.dgamma);
  check({bn.beta.data(), channels}, bn.dbeta);
}

}  // namespace

TEST_CASE_TEMPLATE("batch_norm: every gradient is the derivative of its forward", K,
                   norm_case<1, epilogue::store>, norm_case<3, epilogue::add_relu>,
                   norm_case<lanes<double>, epilogue::relu> FURTHER_TYPES(
                       , norm_case<1, epilogue::relu>, norm_case<1, epilogue::add_relu>,
                       norm_case<lanes<double>, epilogue::store>,
                       norm_case<lanes<double>, epilogue::add_relu>)) {
  for (const int ghost_batch : {0, 2}) {
    batch_norm_fixture<double, K::V, typename K::epilogue> bn({{5, 3, 3}, ghost_batch}, 5);
    check_all_gradients(bn);
  }
}

TEST_CASE_TEMPLATE("batch_norm: the gradient of the residual is masked by the ReLU", K,
                   norm_case<1, epilogue::add_relu>, norm_case<lanes<double>, epilogue::add_relu>) {
  batch_norm_fixture<double, K::V, epilogue::add_relu> bn({{5, 3, 3}, 0}, 4);
  const auto weight = bn.padded(normal_numbers(bn.x.size(), 99));
  const auto loss = [&] {
    bn.forward();
    return std::inner_product(bn.y.begin(), bn.y.end(), weight.begin(), 0.0);
  };
  loss();
  auto dy = weight;
  bn.backward(dy);
  const gradient_report report = check_gradient(bn.residual, dy, loss);
  CHECK_MESSAGE(report.max_error < 1e-6, report.describe());
}

TEST_CASE("batch_norm: a channel's output has mean beta and variance gamma^2") {
  batch_norm_fixture<double, 1, epilogue::store> bn({{3, 6, 5}, 0}, 4);
  for (double& x : bn.x) x = 3 * x + 100;
  bn.forward();
  const double n = 4 * 30;
  for (std::size_t c = 0; c < 3; ++c) {
    double sum = 0, square = 0;
    for (std::size_t i = 0; i < bn.y.size(); ++i)
      if (bn.channel_of(i) == c) sum += bn.y[i];
    for (std::size_t i = 0; i < bn.y.size(); ++i)
      if (bn.channel_of(i) == c) square += std::pow(bn.y[i] - sum / n, 2);
    // x / 3 - 100 / 3 has variance of about 1: epsilon takes about 1e-6 of gamma^2.
    CHECK(std::abs(sum / n - bn.beta[c]) <= 1e-12);
    CHECK(std::abs(square / n / (bn.gamma[c] * bn.gamma[c]) - 1) <= 1e-5);
  }
}

TEST_CASE("batch_norm: in float a large mean does not cancel the variance") {
  constexpr int V = lanes<float>;
  batch_norm_fixture<float, V, epilogue::store> bn({{V, 32, 32}, 0}, 4);
  for (float& x : bn.x) x = std::round(x * 64) / 64 + 4096;  // exact: the data's own rounding is 0
  bn.forward();
  for (std::size_t c = 0; c < V; ++c) {
    long double sum = 0, square = 0;
    for (std::size_t i = c; i < bn.x.size(); i += V) sum += static_cast<long double>(bn.x[i]);
    const long double mean = sum / 4096;
    for (std::size_t i = c; i < bn.x.size(); i += V)
      square +=
          (static_cast<long double>(bn.x[i]) - mean) * (static_cast<long double>(bn.x[i]) - mean);
    const auto unbiased = static_cast<double>(square / 4095);
    CHECK(static_cast<double>(bn.variance[c]) ==
          doctest::Approx(0.9 + 0.1 * unbiased).epsilon(2e-6));
  }
}

TEST_CASE_TEMPLATE("batch_norm: results do not depend on the number of workers", K,
                   norm_case<1, epilogue::add_relu>, norm_case<lanes<float>, epilogue::add_relu>) {
  constexpr int V = K::V;
  std::vector<float> y, dx, dgamma, variance;
  for (const int workers : {1, 2, 3}) {
    const cpu device(workers);
    batch_norm_fixture<float, V, epilogue::add_relu> bn({{20, 4, 4}, 3}, 7);
    bn.s = device.make_stream();
    bn.forward();
    auto dy = bn.padded(normal_numbers<float>(bn.x.size(), 9));
    const auto gradient = bn.backward(dy);
    if (workers == 1) {
      y = bn.y;
      dx = gradient;
      dgamma = bn.dgamma;
      variance = bn.variance;
    }
    CHECK(bn.count == 16);  // values of the last ghost batch, one sample's
    CHECK(y == bn.y);
    CHECK(dx == gradient);
    CHECK(dgamma == bn.dgamma);
    CHECK(variance == bn.variance);
  }
}

TEST_CASE_TEMPLATE("batch_norm: padding channels stay zero in output and gradient", K,
                   norm_case<3, epilogue::store>, norm_case<lanes<double>, epilogue::relu>) {
  batch_norm_fixture<double, K::V, typename K::epilogue> bn({{K::V + 1, 3, 3}, 0}, 3);
  bn.forward();
  auto dy = bn.padded(normal_numbers(bn.x.size(), 9));
  const auto dx = bn.backward(dy);
  std::size_t padding = 0;
  for (std::size_t i = 0; i < bn.y.size(); ++i)
    if (!bn.is_channel(i)) {
      ++padding;
      CHECK(bn.y[i] == 0);
      CHECK(dx[i] == 0);
    }
  CHECK(padding > 0);
}

TEST_CASE(
    "batch_norm: ghost batches are normalised separately, running statistics take their mean") {
  using bn_type = batch_norm_fixture<double, 1, epilogue::relu>;
  bn_type whole({{3, 2, 2}, 2}, 5);  // ghost batches of 2, 2 and 1
  auto weight = normal_numbers(whole.x.size(), 9);
  whole.forward();
  auto dy = weight;
  const auto dx = whole.backward(dy);
  std::vector<double> dgamma(3, 0.0), mean(3, 0.0), variance(3, 0.0);
  for (std::size_t g = 0; g < 3; ++g) {
    bn_type part({{3, 2, 2}, 0}, g < 2 ? 2 : 1);
    const std::size_t first = g * 2 * 12, size = part.x.size();
    std::copy_n(whole.x.begin() + static_cast<std::ptrdiff_t>(first), size, part.x.begin());
    part.gamma = whole.gamma;
    part.beta = whole.beta;
    part.forward();
    std::vector<double> part_dy(weight.begin() + static_cast<std::ptrdiff_t>(first),
                                weight.begin() + static_cast<std::ptrdiff_t>(first + size));
    const auto gradient = part.backward(part_dy);
    for (std::size_t i = 0; i < size; ++i) {
      CHECK(whole.y[first + i] == doctest::Approx(part.y[i]).epsilon(1e-13));
      CHECK(dx[first + i] == doctest::Approx(gradient[i]).epsilon(1e-12));
    }
    for (std::size_t c = 0; c < 3; ++c) {
      dgamma[c] += part.dgamma[c];
      mean[c] += part.mean[c] / 3;
      variance[c] += part.variance[c] / 3;
    }
  }
  for (std::size_t c = 0; c < 3; ++c) {
    CHECK(whole.dgamma[c] == doctest::Approx(dgamma[c]).epsilon(1e-12));
    CHECK(whole.mean[c] == doctest::Approx(mean[c]).epsilon(1e-12));
    CHECK(whole.variance[c] == doctest::Approx(variance[c]).epsilon(1e-12));
  }
}

TEST_CASE("batch_norm: the variance of a single value is 0, without a division by zero") {
  one_channel bn = golden({3});
  bn.forward();
  CHECK(bn.y[0] == doctest::Approx(0.2).epsilon(1e-15));
  CHECK(bn.variance[0] == doctest::Approx(0.9).epsilon(1e-15));
}

TEST_CASE("batch_norm: evaluation uses the running statistics and does not change them") {
  batch_norm_fixture<double, lanes<double>, epilogue::add_relu> bn({{5, 3, 3}, 0}, 2);
  bn.mean = {1, 2, 3, 4, 5};
  bn.variance = {1, 4, 9, 16, 25};
  const auto before = bn.variance;
  bn.evaluate();
  for (std::size_t i = 0; i < bn.y.size(); ++i) {
    const std::size_t c = bn.channel_of(i);
    if (c >= 5) continue;
    const double z =
        (bn.x[i] - bn.mean[c]) / std::sqrt(bn.variance[c] + 1e-5) * bn.gamma[c] + bn.beta[c];
    CHECK(bn.y[i] == doctest::Approx(std::max(0.0, z + bn.residual[i])).epsilon(1e-13));
  }
  CHECK(bn.variance == before);
}

TEST_CASE("batch_norm: adding gradients twice doubles them") {
  batch_norm_fixture<double, 1, epilogue::relu> bn({{3, 2, 2}, 0}, 3);
  const auto weight = normal_numbers(bn.x.size(), 9);
  bn.forward();
  auto dy = weight;
  bn.backward(dy);
  const auto once = bn.dgamma;
  dy = weight;
  bn.backward(dy, write_mode::add);
  for (std::size_t c = 0; c < 3; ++c) CHECK(bn.dgamma[c] == 2 * once[c]);
}

TEST_CASE("batch_norm: NaN stays in its channel") {
  batch_norm_fixture<float, lanes<float>, epilogue::relu> bn({{2, 3, 3}, 0}, 2);
  bn.x[1] = std::numeric_limits<float>::quiet_NaN();  // channel 1 of the first pixel
  bn.forward();
  CHECK(std::isnan(bn.variance[1]));
  CHECK(std::isnan(bn.y[static_cast<std::size_t>(lanes<float>) + 1]));
  CHECK(std::isfinite(bn.variance[0]));
}
