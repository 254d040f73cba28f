// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/pooling.hpp>
#include <cordee/testing/gradient.hpp>

using namespace cordee;

namespace {

template <class R, int B>
struct in_blocks {
  using real = R;
  static constexpr int V = B;
};
#define MAX_POOL_FORMS                                                                  \
  in_blocks<double, 1>, in_blocks<float, 1>, in_blocks<double, 3>, in_blocks<float, 4>, \
      in_blocks<double, lanes<double>>, in_blocks<float, lanes<float>>

std::size_t size(int n) { return static_cast<std::size_t>(n); }

/// Where channel c of pixel p of sample n lies.
std::size_t place(const extent& e, int block, std::size_t n, std::size_t c, std::size_t p) {
  const auto v = size(block);
  return n * sample_size(e, block) + (c / v * e.pixels() + p) * v + c % v;
}

/// A pool behind plain vectors in NCHW.
template <class T>
struct pool_of {
  using real = typename T::real;
  static constexpr int V = T::V;

  max_pool_problem at;
  int samples = 1;
  cpu::stream stream{};
  std::vector<std::uint8_t> where{};

  std::vector<real> blocked(const std::vector<double>& plain, const extent& e) const {
    std::vector<real> x(size(samples) * sample_size(e, V), real{0});
    for (std::size_t i = 0; i < plain.size(); ++i)
      x[place(e, V, i / e.size(), i % e.size() / e.pixels(), i % e.pixels())] =
          static_cast<real>(plain[i]);
    return x;
  }
  std::vector<double> plain(const std::vector<real>& x, const extent& e) const {
    std::vector<double> out(size(samples) * e.size());
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<double>(
          x[place(e, V, i / e.size(), i % e.size() / e.pixels(), i % e.pixels())]);
    return out;
  }
  std::vector<double> forward(const std::vector<double>& x) {
    const auto in = blocked(x, at.in);
    std::vector<real> y(size(samples) * sample_size(at.out(), V), real{99});
    where.assign(y.size(), 255);
    max_pool_forward<real, V>(at, samples, in.data(), y.data(), where.data(), stream);
    return plain(y, at.out());
  }
  std::vector<double> backward(const std::vector<double>& dy, const std::vector<double>& dx = {}) {
    const auto g = blocked(dy, at.out());
    auto out = dx.empty() ? std::vector<real>(size(samples) * sample_size(at.in, V), real{99})
                          : blocked(dx, at.in);
    max_pool_backward<real, V>(at, samples, g.data(), where.data(), out.data(),
                               dx.empty() ? into::overwrite : into::add, stream);
    return plain(out, at.in);
  }
};

/// The definition: the value, and the place in x that gets the gradient. A window's places are
/// visited by rows; what lies outside is skipped.
struct reference_pool {
  std::vector<double> y;
  std::vector<std::size_t> from;

  reference_pool(const max_pool_problem& p, int samples, const std::vector<double>& x) {
    const extent out = p.out();
    for (std::size_t plane = 0; plane < size(samples * p.in.channels); ++plane)
      for (int i = 0; i < out.height; ++i)
        for (int j = 0; j < out.width; ++j) {
          double most = -HUGE_VAL;
          std::size_t first = x.size();
          for (int r = 0; r < p.window; ++r)
            for (int s = 0; s < p.window; ++s) {
              const int h = i * p.stride + r - p.padding, l = j * p.stride + s - p.padding;
              if (h < 0 || l < 0 || h >= p.in.height || l >= p.in.width) continue;
              const std::size_t here = plane * p.in.pixels() + size(h * p.in.width + l);
              if (first == x.size() || x[here] > most || std::isnan(x[here])) {
                most = x[here];
                first = here;
              }
            }
          y.push_back(most);
          from.push_back(first);
        }
  }
  std::vector<double> backward(const std::vector<double>& dy, std::vector<double> dx) const {
    for (std::size_t i = 0; i < dy.size(); ++i) dx[from[i]] += dy[i];
    return dx;
  }
};

const std::vector<max_pool_problem> many_pools{
    {{5, 8, 8}, 3, 2, 1},   {{5, 7, 9}, 3, 2, 1},  {{16, 7, 6}, 3, 2, 1}, {{17, 5, 4}, 2, 2, 0},
    {{3, 5, 5}, 2, 2, 0},   {{3, 6, 5}, 3, 1, 1},  {{2, 9, 7}, 5, 3, 2},  {{1, 1, 1}, 3, 2, 1},
    {{4, 2, 1}, 3, 2, 1},   {{2, 5, 11}, 2, 3, 1}, {{2, 9, 9}, 1, 2, 0},  {{3, 7, 7}, 7, 1, 0},
    {{2, 17, 18}, 16, 1, 8}};

/// Sixteenths within four of zero: many equals, and sums that are exact in either precision.
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

static_assert(max_pool_problem{{64, 112, 112}}.out() == extent{64, 56, 56});
static_assert(max_pool_problem{{64, 7, 8}}.out() == extent{64, 4, 4});
static_assert(max_pool_problem{{4, 5, 5}, 2, 2, 0}.out() == extent{4, 2, 2});

TEST_CASE_TEMPLATE("max_pool: values and gradients are those of the definition, equals included", T,
                   MAX_POOL_FORMS) {
  for (const max_pool_problem& p : many_pools)
    for (const int samples : {0, 1, 3}) {
      INFO(to_text(p.in), ", window ", p.window, ", stride ", p.stride, ", padding ", p.padding,
           ", samples ", samples);
      const auto x = coarse(size(samples) * p.in.size(), 1);
      const auto dy = coarse(size(samples) * p.out().size(), 2), dx0 = coarse(x.size(), 3);
      const reference_pool wanted(p, samples, x);
      pool_of<T> pool{p, samples};
      CHECK(same(pool.forward(x), wanted.y));
      CHECK(same(pool.backward(dy), wanted.backward(dy, std::vector<double>(x.size()))));
      if (samples > 0) CHECK(same(pool.backward(dy, dx0), wanted.backward(dy, dx0)));
    }
}

TEST_CASE_TEMPLATE("max_pool: padding is not zero, the largest of negative numbers is negative", T,
                   MAX_POOL_FORMS) {
  const max_pool_problem p{{3, 4, 4}, 3, 2, 1};
  auto x = normal_numbers(p.in.size(), 1);
  for (double& v : x) v = -1 - std::abs(v);
  for (const double y : pool_of<T>{p}.forward(x)) CHECK(y <= -1);
  for (double& v : x) v = -std::numeric_limits<double>::infinity();
  pool_of<T> pool{p};
  CHECK(same(pool.forward(x), std::vector<double>(p.out().size(), x[0])));
  const std::vector<double> dy(p.out().size(), 1.0);
  CHECK(
      same(pool.backward(dy), reference_pool(p, 1, x).backward(dy, std::vector<double>(x.size()))));
}

TEST_CASE_TEMPLATE("max_pool: of equals the first, by rows, receives the gradient", T,
                   MAX_POOL_FORMS) {
  pool_of<T> pool{{{1, 4, 4}, 2, 2, 0}};
  pool.forward(std::vector<double>(16, 3.0));
  CHECK(pool.backward({1, 2, 3, 4}) ==
        std::vector<double>{1, 0, 2, 0, 0, 0, 0, 0, 3, 0, 4, 0, 0, 0, 0, 0});
  pool.forward({0, 5, 5, 0, 5, 0, 0, 5, 0, 0, 9, 0, 7, 7, 0, 9});
  CHECK(pool.backward({1, 2, 3, 4}) ==
        std::vector<double>{0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 4, 0, 3, 0, 0, 0});
}

TEST_CASE_TEMPLATE("max_pool: not a number comes through, wherever it stands in a window", T,
                   MAX_POOL_FORMS) {
  const max_pool_problem p{{2, 5, 5}, 3, 2, 1};
  for (std::size_t bad = 0; bad < p.in.size(); ++bad) {
    auto x = coarse(p.in.size(), 1);
    x[bad] = std::nan("");
    x[(bad + 7) % x.size()] = std::nan("");
    const reference_pool wanted(p, 1, x);
    pool_of<T> pool{p};
    const auto y = pool.forward(x);
    REQUIRE(std::any_of(y.begin(), y.end(), [](double v) { return std::isnan(v); }));
    CHECK(same(y, wanted.y));
    const auto dy = coarse(y.size(), 2);
    CHECK(same(pool.backward(dy), wanted.backward(dy, std::vector<double>(x.size()))));
  }
}

TEST_CASE("max_pool: its gradient is what finite differences say") {
  for (const max_pool_problem& p : many_pools) {
    INFO(to_text(p.in), ", window ", p.window, ", stride ", p.stride);
    pool_of<in_blocks<double, lanes<double>>> pool{p, 2};
    auto x = normal_numbers(2 * p.in.size(), 1);
    const auto g = normal_numbers(2 * p.out().size(), 2);
    const auto loss = [&] {
      const auto y = pool.forward(x);
      return std::inner_product(y.begin(), y.end(), g.begin(), 0.0);
    };
    loss();
    const auto dx = pool.backward(g);
    CHECK(check_gradient(x, dx, loss, 1, 1e-6).worst < 1e-5);
  }
}

TEST_CASE_TEMPLATE("max_pool: the number of workers does not change a bit", T, MAX_POOL_FORMS) {
  const max_pool_problem p{{19, 7, 6}, 3, 2, 1};
  const int samples = 5;
  const auto x = normal_numbers(5 * p.in.size(), 1), dy = normal_numbers(5 * p.out().size(), 2);
  pool_of<T> alone{p, samples};
  const auto y = alone.forward(x), dx = alone.backward(dy);
  for (const int workers : {1, 2, 3}) {
    const cpu device(workers);
    pool_of<T> shared{p, samples, device.open()};
    CHECK(shared.forward(x) == y);
    CHECK(shared.backward(dy) == dx);
  }
}
