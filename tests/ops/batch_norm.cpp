// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <barrier>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/batch_norm.hpp>
#include <cordee/testing/gradient.hpp>

using namespace cordee;

namespace {

/// One batch norm with all its memory.
template <class Real, int V, class Epilogue>
struct layer {
  batch_norm_problem at;
  int samples;
  std::vector<Real> x, y, residual, gamma, beta, mean, variance, saved, dgamma, dbeta;
  std::vector<double> scratch;
  double count = 0;
  combine_sums combine{};
  cpu::stream s{};

  layer(batch_norm_problem problem, int n, std::uint64_t seed = 1) : at(problem), samples(n) {
    const std::size_t size = static_cast<std::size_t>(n) * sample_size(at.at, V);
    const auto channels = static_cast<std::size_t>(at.at.channels);
    x = padded(normal_numbers<Real>(size, seed));
    residual = padded(normal_numbers<Real>(size, seed + 1));
    y.assign(size, Real{7});
    gamma = normal_numbers<Real>(channels, seed + 2);
    beta = normal_numbers<Real>(channels, seed + 3);
    gamma.resize(at.lanes_of(V), 0);
    beta.resize(at.lanes_of(V), 0);
    mean.assign(channels, 0);
    variance.assign(channels, 1);
    dgamma.assign(channels, 0);
    dbeta.assign(channels, 0);
    saved.resize(at.saved(n, V));
    scratch.resize(at.scratch(n, V));
  }
  /// Zeros where a block has no channel.
  std::vector<Real> padded(std::vector<Real> numbers) const {
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (!real_channel(i)) numbers[i] = 0;
    return numbers;
  }
  bool real_channel(std::size_t i) const {
    return channel_of(i) < static_cast<std::size_t>(at.at.channels);
  }
  std::size_t channel_of(std::size_t i) const {
    return i % sample_size(at.at, V) / (at.at.pixels() * V) * V + i % V;
  }
  batch_norm_tensors<Real> tensors() {
    return {x.data(), y.data(), gamma.data(), beta.data(), saved.data(), scratch.data()};
  }
  void forward() {
    count = batch_norm_forward<Real, V, Epilogue>(at, samples, tensors(), residual.data(),
                                                  mean.data(), variance.data(), combine, s);
  }
  void evaluate() {
    batch_norm_evaluate<Real, V, Epilogue>(at, samples, tensors(), residual.data(), mean.data(),
                                           variance.data(), s);
  }
  std::vector<Real> backward(std::vector<Real>& dy, into mode = into::overwrite) {
    std::vector<Real> dx(x.size(), Real{7});
    batch_norm_backward<Real, V, Epilogue>(at, samples, tensors(), count, dy.data(), dx.data(),
                                           dgamma.data(), dbeta.data(), mode, combine, s);
    return dx;
  }
};

template <int Block, class E>
struct kind_of {
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
  const auto check = [&](std::span<double> at, std::span<const double> gradient) {
    const gradient_report report = check_gradient(at, gradient, loss);
    CHECK(report.compared == at.size());
    CHECK_MESSAGE(report.worst < 1e-6, report.sentence());
  };
  check(bn.x, dx);
  const auto channels = static_cast<std::size_t>(bn.at.at.channels);
  check({bn.gamma.data(), channels}, bn.dgamma);
  check({bn.beta.data(), channels}, bn.dbeta);
}

}  // namespace

TEST_CASE_TEMPLATE("batch_norm: every gradient is the derivative of its forward", K,
                   kind_of<1, epilogue::store>, kind_of<1, epilogue::relu>,
                   kind_of<1, epilogue::add_relu>, kind_of<3, epilogue::add_relu>,
                   kind_of<lanes<double>, epilogue::store>, kind_of<lanes<double>, epilogue::relu>,
                   kind_of<lanes<double>, epilogue::add_relu>) {
  for (const int group : {0, 2}) {
    layer<double, K::V, typename K::epilogue> bn({{5, 3, 3}, group}, 5);
    check_all_gradients(bn);
  }
}

TEST_CASE_TEMPLATE("batch_norm: the residual receives what the ReLU let through", K,
                   kind_of<1, epilogue::add_relu>, kind_of<lanes<double>, epilogue::add_relu>) {
  layer<double, K::V, epilogue::add_relu> bn({{5, 3, 3}, 0}, 4);
  const auto weight = bn.padded(normal_numbers(bn.x.size(), 99));
  const auto loss = [&] {
    bn.forward();
    return std::inner_product(bn.y.begin(), bn.y.end(), weight.begin(), 0.0);
  };
  loss();
  auto dy = weight;
  bn.backward(dy);
  const gradient_report report = check_gradient(bn.residual, dy, loss);
  CHECK_MESSAGE(report.worst < 1e-6, report.sentence());
}

TEST_CASE("batch_norm: a channel's output has mean beta and variance gamma^2") {
  layer<double, 1, epilogue::store> bn({{3, 6, 5}, 0}, 4);
  for (double& x : bn.x) x = 3 * x + 100;
  bn.forward();
  const double n = 4 * 30;
  for (std::size_t c = 0; c < 3; ++c) {
    double sum = 0, square = 0;
    for (std::size_t i = 0; i < bn.y.size(); ++i)
      if (bn.channel_of(i) == c) sum += bn.y[i];
    for (std::size_t i = 0; i < bn.y.size(); ++i)
      if (bn.channel_of(i) == c) square += std::pow(bn.y[i] - sum / n, 2);
    CHECK(sum / n == doctest::Approx(bn.beta[c]));
    CHECK(square / n == doctest::Approx(bn.gamma[c] * bn.gamma[c]).epsilon(1e-5));
  }
}

TEST_CASE("batch_norm: in float a large mean does not swallow the variance") {
  constexpr int V = lanes<float>;
  layer<float, V, epilogue::store> bn({{V, 32, 32}, 0}, 4);
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
                   kind_of<1, epilogue::add_relu>, kind_of<lanes<float>, epilogue::add_relu>) {
  constexpr int V = K::V;
  std::vector<float> y, dx, dgamma, variance;
  for (const int workers : {1, 2, 3}) {
    const cpu device(workers);
    layer<float, V, epilogue::add_relu> bn({{20, 4, 4}, 3}, 7);
    bn.s = device.open();
    bn.forward();
    auto dy = bn.padded(normal_numbers<float>(bn.x.size(), 9));
    const auto gradient = bn.backward(dy);
    if (workers == 1) {
      y = bn.y;
      dx = gradient;
      dgamma = bn.dgamma;
      variance = bn.variance;
    }
    CHECK(y == bn.y);
    CHECK(dx == gradient);
    CHECK(dgamma == bn.dgamma);
    CHECK(variance == bn.variance);
  }
}

TEST_CASE_TEMPLATE("batch_norm: padding channels stay zero in output and gradient", K,
                   kind_of<3, epilogue::store>, kind_of<lanes<double>, epilogue::relu>) {
  layer<double, K::V, typename K::epilogue> bn({{K::V + 1, 3, 3}, 0}, 3);
  bn.forward();
  auto dy = bn.padded(normal_numbers(bn.x.size(), 9));
  const auto dx = bn.backward(dy);
  std::size_t padding = 0;
  for (std::size_t i = 0; i < bn.y.size(); ++i)
    if (!bn.real_channel(i)) {
      ++padding;
      CHECK(bn.y[i] == 0);
      CHECK(dx[i] == 0);
    }
  CHECK(padding > 0);
}

TEST_CASE("batch_norm: ghost groups are batches of their own, running statistics their mean") {
  using bn_type = layer<double, 1, epilogue::relu>;
  bn_type whole({{3, 2, 2}, 2}, 5);  // groups of 2, 2 and 1
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
    std::vector<double> own(weight.begin() + static_cast<std::ptrdiff_t>(first),
                            weight.begin() + static_cast<std::ptrdiff_t>(first + size));
    const auto gradient = part.backward(own);
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

namespace {

/// Two ranks that meet whenever both have called; the golden values' sync batch norm.
struct meeting {
  std::barrier<> gate{2};
  std::array<std::vector<double>, 2> said;
  std::array<int, 2> calls{};

  struct seat {
    meeting* at;
    std::size_t rank;
  };
  static void sum(void* context, std::span<double> x) {
    const seat own = *static_cast<seat*>(context);
    meeting& m = *own.at;
    m.said[own.rank].assign(x.begin(), x.end());
    ++m.calls[own.rank];
    m.gate.arrive_and_wait();
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = m.said[0].at(i) + m.said[1].at(i);
    m.gate.arrive_and_wait();
  }
};

using one_channel = layer<double, 1, epilogue::store>;

one_channel golden(std::vector<double> x) {
  one_channel bn({{1, 1, 1}, 0}, static_cast<int>(x.size()));
  bn.x = std::move(x);
  bn.gamma = {1.5};
  bn.beta = {0.2};
  return bn;
}

/// Both ranks forward and backward, meeting at every sum.
std::array<std::vector<double>, 2> together(std::array<one_channel*, 2> ranks,
                                            std::array<std::vector<double>, 2> dy, meeting& m) {
  std::array<std::vector<double>, 2> dx;
  std::array<meeting::seat, 2> seats{{{&m, 0}, {&m, 1}}};
  std::array<std::thread, 2> threads;
  for (std::size_t r = 0; r < 2; ++r)
    threads[r] = std::thread([&, r] {
      ranks[r]->combine = {meeting::sum, &seats[r]};
      ranks[r]->forward();
      dx[r] = ranks[r]->backward(dy[r]);
    });
  for (auto& t : threads) t.join();
  return dx;
}

void check_close(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) < 1e-10);
}

}  // namespace

TEST_CASE("batch_norm: two ranks that combine give the golden values of section 36.4") {
  one_channel first = golden({1, 2, 4}), second = golden({0, 5, 6});
  meeting m;
  const auto dx = together({&first, &second}, {{{.1, -.2, .3}, {.5, -.1, .2}}}, m);
  check_close(first.y, {-1.18872866174, -0.494364330868, 0.894364330868});
  check_close(second.y, {-1.8830929926, 1.58872866174, 2.2830929926});
  check_close(dx[0], {-0.0628233544355, -0.251293715326, 0.135566326848});
  check_close(dx[1], {0.195083439542, -0.122340467129, 0.105807770501});
  CHECK(first.dbeta[0] == doctest::Approx(.2));  // local: the reducer adds them
  CHECK(second.dbeta[0] == doctest::Approx(.6));
  CHECK(first.dgamma[0] + second.dgamma[0] == doctest::Approx(-0.37032764313).epsilon(1e-10));
  for (const one_channel* r : {&first, &second}) {
    CHECK(r->mean[0] == doctest::Approx(0.1 * 3));
    CHECK(r->variance[0] == doctest::Approx(0.9 + 0.1 * 5.6));
  }
}

TEST_CASE("batch_norm: one rank alone gives the local golden statistics of section 36.4") {
  one_channel first = golden({1, 2, 4}), second = golden({0, 5, 6});
  first.forward();
  second.forward();
  CHECK(first.mean[0] == doctest::Approx(0.1 * 7 / 3));
  CHECK(second.mean[0] == doctest::Approx(0.1 * 11 / 3));
  CHECK(first.variance[0] == doctest::Approx(0.9 + 0.1 * 1.5555556 * 1.5).epsilon(1e-8));
  CHECK(second.variance[0] == doctest::Approx(0.9 + 0.1 * 6.8888889 * 1.5).epsilon(1e-8));
}

TEST_CASE("batch_norm: a rank without samples meets the others and changes nothing") {
  one_channel alone = golden({1, 2, 4}), beside = golden({1, 2, 4}), empty = golden({});
  std::vector<double> dy{.1, -.2, .3};
  alone.forward();
  const auto dx = alone.backward(dy);
  meeting m;
  empty.dgamma = empty.dbeta = {5};
  const auto both = together({&beside, &empty}, {{{.1, -.2, .3}, {}}}, m);
  CHECK(m.calls[0] == m.calls[1]);
  check_close(alone.y, beside.y);
  check_close(dx, both[0]);
  CHECK(empty.mean[0] == 0);
  CHECK(empty.variance[0] == 1);
  CHECK(empty.dgamma[0] == 0);  // overwritten by the sum of nothing
  CHECK(empty.dbeta[0] == 0);
}

TEST_CASE("batch_norm: sharing statistics and ghost groups exclude each other") {
  layer<double, 1, epilogue::store> bn({{1, 1, 1}, 2}, 4);
  bn.combine = {[](void*, std::span<double>) {}, nullptr};
  CHECK_THROWS_AS(bn.forward(), misuse);
}

TEST_CASE("batch_norm: a single value has no unbiased variance, and no division by zero") {
  one_channel bn = golden({3});
  bn.forward();
  CHECK(bn.y[0] == doctest::Approx(0.2));
  CHECK(bn.variance[0] == doctest::Approx(0.9));
}

TEST_CASE("batch_norm: evaluation uses the running statistics and leaves them") {
  layer<double, lanes<double>, epilogue::add_relu> bn({{5, 3, 3}, 0}, 2);
  bn.mean = {1, 2, 3, 4, 5};
  bn.variance = {1, 4, 9, 16, 25};
  const auto before = bn.variance;
  bn.evaluate();
  for (std::size_t i = 0; i < bn.y.size(); ++i) {
    const std::size_t c = bn.channel_of(i);
    if (c >= 5) continue;
    const double z =
        (bn.x[i] - bn.mean[c]) / std::sqrt(bn.variance[c] + 1e-5) * bn.gamma[c] + bn.beta[c];
    CHECK(bn.y[i] == doctest::Approx(std::max(0.0, z + bn.residual[i])));
  }
  CHECK(bn.variance == before);
}

TEST_CASE("batch_norm: adding gradients twice doubles them") {
  layer<double, 1, epilogue::relu> bn({{3, 2, 2}, 0}, 3);
  const auto weight = normal_numbers(bn.x.size(), 9);
  bn.forward();
  auto dy = weight;
  bn.backward(dy);
  const auto once = bn.dgamma;
  dy = weight;
  bn.backward(dy, into::add);
  for (std::size_t c = 0; c < 3; ++c) CHECK(bn.dgamma[c] == doctest::Approx(2 * once[c]));
}

TEST_CASE("batch_norm: what is not finite stays so") {
  layer<float, lanes<float>, epilogue::relu> bn({{2, 3, 3}, 0}, 2);
  bn.x[1] = std::numeric_limits<float>::quiet_NaN();  // channel 1 of the first pixel
  bn.forward();
  CHECK(std::isnan(bn.variance[1]));
  CHECK(std::isnan(bn.y[static_cast<std::size_t>(lanes<float>) + 1]));
  CHECK(std::isfinite(bn.variance[0]));
}
