// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/cpu/pooling.hpp>
#include <cordee/testing/gradient.hpp>

#include "tests/support/further_types.hpp"

using namespace cordee;
using namespace cordee::detail::device;
using namespace cordee::detail::ops;

namespace {

template <class R, int B>
struct in_blocks {
  using real = R;
  static constexpr int V = B;
};
#define MAX_POOL_FORMS                                                                         \
  in_blocks<double, 1>, in_blocks<double, 3>,                                                  \
      in_blocks<float, lanes<float>> FURTHER_TYPES(, in_blocks<float, 1>, in_blocks<float, 4>, \
                                                   in_blocks<double, lanes<double>>)

std::size_t size(int n) { return static_cast<std::size_t>(n); }

/// The index of channel c of pixel p of sample n.
std::size_t index(const extent& e, int block, std::size_t n, std::size_t c, std::size_t p) {
  const auto v = size(block);
  return n * sample_size(e, block) + (c / v * e.pixels() + p) * v + c % v;
}

/// A max pool of vectors in NCHW.
template <class T>
struct pool_fixture {
  using real = typename T::real;
  static constexpr int V = T::V;

  max_pool_problem p;
  int samples = 1;
  cpu::stream stream{};
  std::vector<std::uint8_t> argmax{};

  std::vector<real> blocked(const std::vector<double>& plain, const extent& e) const {
    std::vector<real> x(size(samples) * sample_size(e, V), real{0});
    for (std::size_t i = 0; i < plain.size(); ++i)
      x[index(e, V, i / e.size(), i % e.size() / e.pixels(), i % e.pixels())] =
          static_cast<real>(plain[i]);
    return x;
  }
  std::vector<double> plain(const std::vector<real>& x, const extent& e) const {
    std::vector<double> out(size(samples) * e.size());
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<double>(
          x[index(e, V, i / e.size(), i % e.size() / e.pixels(), i % e.pixels())]);
    return out;
  }
  std::vector<double> forward(const std::vector<double>& x) {
    const auto in = blocked(x, p.in);
    std::vector<real> y(size(samples) * sample_size(p.out(), V), real{99});
    argmax.assign(y.size(), 255);
    max_pool_forward<real, V>(p, samples, in.data(), y.data(), argmax.data(), stream);
    return plain(y, p.out());
  }
  std::vector<double> backward(const std::vector<double>& dy, const std::vector<double>& dx = {}) {
    const auto g = blocked(dy, p.out());
    auto out = dx.empty() ? std::vector<real>(size(samples) * sample_size(p.in, V), real{99})
                          : blocked(dx, p.in);
    max_pool_backward<real, V>(p, samples, g.data(), argmax.data(), out.data(),
                               dx.empty() ? write_mode::overwrite : write_mode::add, stream);
    return plain(out, p.in);
  }
};

/// The definition: the value, and the index in x that receives the gradient. The pixels of a window
/// are visited in row-major order; those outside the image are skipped.
struct reference_pool {
  std::vector<double> y;
  std::vector<std::size_t> from;

  reference_pool(const max_pool_problem& p, int samples, const std::vector<double>& x) {
    const extent out = p.out();
    for (std::size_t plane = 0; plane < size(samples * p.in.channels); ++plane)
      for (int i = 0; i < out.height; ++i)
        for (int j = 0; j < out.width; ++j) {
          double largest = -HUGE_VAL;
          std::size_t argmax = x.size();
          for (int r = 0; r < p.window; ++r)
            for (int s = 0; s < p.window; ++s) {
              const int h = i * p.stride + r - p.padding, l = j * p.stride + s - p.padding;
              if (h < 0 || l < 0 || h >= p.in.height || l >= p.in.width) continue;
              const std::size_t pixel = plane * p.in.pixels() + size(h * p.in.width + l);
              if (argmax == x.size() || x[pixel] > largest || std::isnan(x[pixel])) {
                largest = x[pixel];
                argmax = pixel;
              }
            }
          y.push_back(largest);
          from.push_back(argmax);
        }
  }
  std::vector<double> backward(const std::vector<double>& dy, std::vector<double> dx) const {
    for (std::size_t i = 0; i < dy.size(); ++i) dx[from[i]] += dy[i];
    return dx;
  }
};

const std::vector<max_pool_problem> many_pools{
    {{5, 8, 8}, 3, 2, 1}, {{5, 7, 9}, 3, 2, 1},   {{16, 7, 6}, 3, 2, 1}, {{17, 5, 4}, 2, 2, 0},
    {{3, 5, 5}, 2, 2, 0}, {{3, 6, 5}, 3, 1, 1},   {{2, 9, 7}, 5, 3, 2},  {{1, 1, 1}, 3, 2, 1},
    {{4, 2, 1}, 3, 2, 1}, {{2, 5, 11}, 2, 3, 1},  {{2, 9, 9}, 1, 2, 0},  {{3, 7, 7}, 7, 1, 0},
    {{3, 8, 6}, 3, 2, 0}, {{2, 17, 18}, 16, 1, 8}};

/// Multiples of 1/16 of small magnitude: many are equal, and sums are exact in both precisions.
std::vector<double> coarse(std::size_t n, std::uint64_t seed) {
  auto x = normal_numbers(n, seed);
  for (double& v : x) v = std::round(2 * v) / 16;
  return x;
}

bool same(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  return true;
}

}  // namespace

TEST_CASE_TEMPLATE("max_pool: values and gradients equal the definition, ties included", T,
                   MAX_POOL_FORMS) {
  for (const max_pool_problem& p : many_pools)
    for (const int samples : {0, 1, 3}) {
      INFO(describe(p.in), ", window ", p.window, ", stride ", p.stride, ", padding ", p.padding,
           ", samples ", samples);
      const auto x = coarse(size(samples) * p.in.size(), 1);
      const auto dy = coarse(size(samples) * p.out().size(), 2), dx0 = coarse(x.size(), 3);
      const reference_pool expected(p, samples, x);
      pool_fixture<T> pool{p, samples};
      CHECK(same(pool.forward(x), expected.y));
      CHECK(same(pool.backward(dy), expected.backward(dy, std::vector<double>(x.size()))));
      if (samples > 0) CHECK(same(pool.backward(dy, dx0), expected.backward(dy, dx0)));
    }
}

TEST_CASE_TEMPLATE("max_pool: padding is not a zero: the maximum of negative numbers is negative",
                   T, MAX_POOL_FORMS) {
  const max_pool_problem p{{3, 4, 4}, 3, 2, 1};
  auto x = normal_numbers(p.in.size(), 1);
  for (double& v : x) v = -1 - std::abs(v);
  for (const double y : pool_fixture<T>{p}.forward(x)) CHECK(y <= -1);
  for (double& v : x) v = -std::numeric_limits<double>::infinity();
  pool_fixture<T> pool{p};
  CHECK(same(pool.forward(x), std::vector<double>(p.out().size(), x[0])));
  const std::vector<double> dy(p.out().size(), 1.0);
  CHECK(
      same(pool.backward(dy), reference_pool(p, 1, x).backward(dy, std::vector<double>(x.size()))));
}

TEST_CASE_TEMPLATE("max_pool: of equal maxima the first in row-major order receives the gradient",
                   T, MAX_POOL_FORMS) {
  pool_fixture<T> pool{{{1, 4, 4}, 2, 2, 0}};
  pool.forward(std::vector<double>(16, 3.0));
  CHECK(pool.backward({1, 2, 3, 4}) ==
        std::vector<double>{1, 0, 2, 0, 0, 0, 0, 0, 3, 0, 4, 0, 0, 0, 0, 0});
  pool.forward({0, 5, 5, 0, 5, 0, 0, 5, 0, 0, 9, 0, 7, 7, 0, 9});
  CHECK(pool.backward({1, 2, 3, 4}) ==
        std::vector<double>{0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 4, 0, 3, 0, 0, 0});
}

TEST_CASE_TEMPLATE("max_pool: NaN is the maximum at any position of a window", T, MAX_POOL_FORMS) {
  const max_pool_problem p{{2, 5, 5}, 3, 2, 1};
  for (std::size_t bad = 0; bad < p.in.size(); ++bad) {
    auto x = coarse(p.in.size(), 1);
    x[bad] = std::nan("");
    x[(bad + 7) % x.size()] = std::nan("");
    const reference_pool expected(p, 1, x);
    pool_fixture<T> pool{p};
    const auto y = pool.forward(x);
    REQUIRE(std::any_of(y.begin(), y.end(), [](double v) { return std::isnan(v); }));
    CHECK(same(y, expected.y));
    const auto dy = coarse(y.size(), 2);
    CHECK(same(pool.backward(dy), expected.backward(dy, std::vector<double>(x.size()))));
  }
}

TEST_CASE("max_pool: the gradient equals finite differences") {
  for (const max_pool_problem& p : many_pools) {
    INFO(describe(p.in), ", window ", p.window, ", stride ", p.stride);
    pool_fixture<in_blocks<double, lanes<double>>> pool{p, 2};
    auto x = normal_numbers(2 * p.in.size(), 1);
    const auto g = normal_numbers(2 * p.out().size(), 2);
    const auto loss = [&] {
      const auto y = pool.forward(x);
      return std::inner_product(y.begin(), y.end(), g.begin(), 0.0);
    };
    loss();
    const auto dx = pool.backward(g);
    CHECK(check_gradient(x, dx, loss, 1, 1e-6).max_error < 1e-5);
  }
}

TEST_CASE_TEMPLATE("max_pool: the number of workers does not change a bit", T, MAX_POOL_FORMS) {
  const max_pool_problem p{{19, 7, 6}, 3, 2, 1};
  const int samples = 5;
  const auto x = normal_numbers(5 * p.in.size(), 1), dy = normal_numbers(5 * p.out().size(), 2);
  pool_fixture<T> serial{p, samples};
  const auto y = serial.forward(x), dx = serial.backward(dy);
  for (const int workers : {1, 2, 3}) {
    const cpu device(workers);
    pool_fixture<T> parallel{p, samples, device.make_stream()};
    CHECK(parallel.forward(x) == y);
    CHECK(parallel.backward(dy) == dx);
  }
}
