// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/winograd/minimal_filter.hpp>

#include "tests/support/engines.hpp"

using namespace cordee::detail::ops;

namespace {

/// N random numbers of each channel.
template <class Real, int N>
winograd_line<Real, lanes<Real>, N> random_line(std::uint64_t stream) {
  constexpr int V = lanes<Real>;
  const std::vector<double> numbers = support::random_numbers(std::size_t{N} * V, stream);
  winograd_line<Real, V, N> line;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    line.v[i / V][i % V] = static_cast<Real>(numbers[i]);
  return line;
}
template <class Real, int V, int N>
double product(const winograd_line<Real, V, N>& a, const winograd_line<Real, V, N>& b) {
  double sum = 0;
  for (int n = 0; n < N; ++n)
    for (int v = 0; v < V; ++v) sum += static_cast<double>(a.v[n][v]) * b.v[n][v];
  return sum;
}

template <int Pixels, class Number>
struct filter_of {
  static constexpr int M = Pixels;
  using Real = Number;
  using type = minimal_filter<M, Real, lanes<Real>>;
};

}  // namespace

TEST_CASE_TEMPLATE("minimal_filter: its products are sums of three terms", Case,
                   filter_of<2, float>, filter_of<2, double>, filter_of<4, float>,
                   filter_of<4, double>) {
  using Real = typename Case::Real;
  using filter = typename Case::type;
  constexpr int M = Case::M;
  const auto d = random_line<Real, M + 2>(1);
  const auto g = random_line<Real, 3>(2);
  auto m = filter::data(d);
  const auto u = filter::window(g);
  for (int e = 0; e < M + 2; ++e) m.v[e] *= u.v[e];
  const auto y = filter::sums(m);
  // Rows of |B^T| sum to at most 5.1, of |G| to 1.5, of |A^T| to 8.6; about ten roundings.
  constexpr double bound = 10 * 5.1 * 1.5 * 8.6 * std::numeric_limits<Real>::epsilon() / 2;
  for (int i = 0; i < M; ++i)
    for (int v = 0; v < lanes<Real>; ++v) {
      double sum = 0;
      for (int r = 0; r < 3; ++r) sum += static_cast<double>(d.v[i + r][v]) * g.v[r][v];
      CHECK(std::abs(y.v[i][v] - sum) <= bound);
    }
}

TEST_CASE("minimal_filter: gradients are the adjoints") {
  using filter = filter_of<2, double>::type;
  const auto m = random_line<double, 4>(3), u = random_line<double, 4>(4);
  const auto e = random_line<double, 2>(5);
  const auto g = random_line<double, 3>(6);
  CHECK(product(filter::sums(m), e) == doctest::Approx(product(m, filter::gradients(e))));
  CHECK(product(filter::window(g), u) == doctest::Approx(product(g, filter::window_gradient(u))));
}
