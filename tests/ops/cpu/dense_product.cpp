// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/cpu/dense_product.hpp>

using namespace cordee;
using cordee::detail::ops::dense_product, cordee::detail::ops::matrix_view;

namespace {

template <class Real>
std::vector<Real> wave(std::size_t n, double step) {
  std::vector<Real> x(n);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = static_cast<Real>(std::sin(step * static_cast<double>(i) + 0.3));
  return x;
}

/// The largest difference from sums in double, as a share of the bound of both sums' roundings.
template <class Real>
double rounding_errors(std::size_t m, std::size_t n, std::size_t depth, bool transposes,
                       bool symmetric, int workers) {
  const auto a = wave<Real>(m * depth, 0.7), b = wave<Real>(depth * n, 1.3);
  const matrix_view<Real> left =
      transposes ? matrix_view<Real>{a.data(), 1, m} : matrix_view<Real>{a.data(), depth, 1};
  const matrix_view<Real> right = symmetric    ? left.transposed()
                                  : transposes ? matrix_view<Real>{b.data(), 1, depth}
                                               : matrix_view<Real>{b.data(), n, 1};
  std::vector<Real> c(m * n, Real{7});
  cpu device{workers};
  dense_product(m, n, depth, left, right, c.data(), symmetric, device.make_stream());
  double largest = 0;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0, sizes = 0;
      for (std::size_t k = 0; k < depth; ++k) {
        const double term = static_cast<double>(*left.from(i, k).data) *
                            static_cast<double>(*right.from(k, j).data);
        sum += term, sizes += std::abs(term);
      }
      const double bound = sizes * static_cast<double>(depth) *
                           static_cast<double>(std::numeric_limits<Real>::epsilon());
      largest = std::max(largest, std::abs(sum - static_cast<double>(c[i * n + j])) / bound);
    }
  return largest;
}

}  // namespace

TEST_CASE_TEMPLATE("dense_product is the sum of products, of any sides and strides", Real, float,
                   double) {
  constexpr std::size_t V = cordee::detail::ops::product_tile<Real>::columns,
                        H = cordee::detail::ops::product_tile<Real>::rows;
  for (const std::size_t m : {std::size_t{1}, H - 1, H, H + 1, 10 * H + 1})
    for (const std::size_t n : {std::size_t{1}, V - 1, V, V + 1})
      for (const std::size_t depth : {std::size_t{1}, std::size_t{255}, std::size_t{257}})
        for (const bool transposes : {false, true}) {
          CAPTURE(m);
          CAPTURE(n);
          CAPTURE(depth);
          CHECK(rounding_errors<Real>(m, n, depth, transposes, false, 1) <= 1);
        }
  CHECK(rounding_errors<Real>(10 * H + 1, V + 1, 513, false, false, 3) <= 1);
  for (const std::size_t n : {std::size_t{1}, V, 33 + 10 * H})
    for (const bool transposes : {false, true})
      CHECK(rounding_errors<Real>(n, n, 300, transposes, true, 2) <= 1);
}
