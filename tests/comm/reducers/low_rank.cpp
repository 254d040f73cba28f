// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/low_rank.hpp>
#include <cordee/core/random.hpp>

using namespace cordee;
using namespace cordee::detail::comm;

namespace {

template <class Real>
std::vector<Real> normal_numbers(std::size_t n, std::uint64_t which) {
  random_sequence random(3, purpose::test, which, n);
  std::vector<Real> x(n);
  for (Real& v : x) v = static_cast<Real>(random.normal());
  return x;
}

matrix_extent extent_of(std::size_t rows, std::size_t cols, int rank) {
  segment s{"", kind::weight, 0, rows * cols};
  s.shape[0] = static_cast<int>(rows);
  return {s, rank};
}

}  // namespace

TEST_CASE_TEMPLATE("low rank: products are those of plain loops, by any number of workers", Real,
                   float, double) {
  for (const std::size_t rows : {1u, 7u, 200u})
    for (const std::size_t cols : {1u, 17u, 300u})
      for (const int workers : {1, 3}) {
        const cpu device{workers};
        const auto s = device.make_stream();
        const matrix_extent e = extent_of(rows, cols, 3);
        const auto x = normal_numbers<Real>(rows * cols, 0), q = normal_numbers<Real>(3 * cols, 1),
                   p = normal_numbers<Real>(3 * rows, 2);
        std::vector<Real> left(3 * rows), right(3 * cols), sum(rows * cols), outer(rows * cols);
        project_rows(e, x.data(), q.data(), left.data(), s);
        project_cols(e, x.data(), p.data(), right.data(), s);
        add_outer_product(e, x.data(), Real{-1}, p.data(), q.data(), sum.data(), s);
        add_outer_product<Real>(e, nullptr, Real{1}, p.data(), q.data(), outer.data(), s);
        const double epsilon = static_cast<double>(std::numeric_limits<Real>::epsilon());
        double worst = 0;
        const auto compare = [&](double found, double expected) {
          worst = std::max(worst, std::abs(found - expected));
        };
        for (std::size_t k = 0; k < 3; ++k) {
          for (std::size_t i = 0; i < rows; ++i) {
            double expected = 0;
            for (std::size_t j = 0; j < cols; ++j)
              expected += double(x[i * cols + j]) * double(q[k * cols + j]);
            compare(double(left[i * 3 + k]), expected);
          }
          for (std::size_t j = 0; j < cols; ++j) {
            double expected = 0;
            for (std::size_t i = 0; i < rows; ++i)
              expected += double(x[i * cols + j]) * double(p[i * 3 + k]);
            compare(double(right[k * cols + j]), expected);
          }
        }
        for (std::size_t i = 0; i < rows; ++i)
          for (std::size_t j = 0; j < cols; ++j) {
            double expected = 0;
            for (std::size_t k = 0; k < 3; ++k)
              expected += double(p[i * 3 + k]) * double(q[k * cols + j]);
            compare(double(outer[i * cols + j]), expected);
            compare(double(sum[i * cols + j]), double(x[i * cols + j]) - expected);
          }
        // Sums of up to 300 products of normal numbers, below 16 each.
        CHECK(worst < 300 * 16 * epsilon);
      }
}

TEST_CASE_TEMPLATE("low rank: columns become orthonormal, dependent ones zero, NaN stays", Real,
                   float, double) {
  const matrix_extent e = extent_of(50, 60, 4);
  auto p = normal_numbers<Real>(200, 4);
  for (std::size_t i = 0; i < 50; ++i) {
    p[i * 4 + 1] = p[i * 4] + static_cast<Real>(1e-4) * p[i * 4 + 1];  // nearly dependent
    p[i * 4 + 2] = p[i * 4] - 2 * p[i * 4 + 1];                        // a sum of both
  }
  orthonormalize(e, p.data(), cpu::stream{});
  for (std::size_t a = 0; a < 4; ++a)
    for (std::size_t b = 0; b < 4; ++b) {
      double dot = 0;
      for (std::size_t i = 0; i < 50; ++i) dot += double(p[i * 4 + a]) * double(p[i * 4 + b]);
      CAPTURE(a);
      CAPTURE(b);
      CHECK(std::abs(dot - (a == b && a != 2 ? 1 : 0)) <
            50 * static_cast<double>(std::numeric_limits<Real>::epsilon()));
    }
  for (const double wrong : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    auto x = normal_numbers<Real>(200, 5);
    x[8] = static_cast<Real>(wrong);
    orthonormalize(e, x.data(), cpu::stream{});
    CHECK(std::isnan(x[8]));
  }
}
