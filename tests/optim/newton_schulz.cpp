// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/optim/newton_schulz.hpp>

using namespace cordee;
using cordee::detail::optim::newton_schulz;

namespace {

using matrix = std::vector<double>;

matrix noise(std::size_t rows, std::size_t columns, double size) {
  matrix x(rows * columns);
  std::uint32_t seed = 1;
  for (double& one : x)
    one = size * (static_cast<double>((seed = seed * 1664525u + 1013904223u) >> 8) / 0x1p23 - 1);
  return x;
}
/// X <- (a I + b X X^T + c (X X^T)^2) X, step by step; of X^T where there are more rows.
matrix by_steps(matrix x, std::size_t rows, std::size_t columns, int steps) {
  double norm = 0;
  for (const double one : x) norm = std::hypot(norm, one);
  for (double& one : x) one /= norm;
  if (rows > columns) {
    matrix t(x.size());
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < columns; ++j) t[j * rows + i] = x[i * columns + j];
    x = t;
  }
  const std::size_t m = std::min(rows, columns), n = std::max(rows, columns);
  for (int step = 0; step < steps; ++step) {
    matrix s(m * m), p(m * m), next(m * n);
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < m; ++j)
        for (std::size_t k = 0; k < n; ++k) s[i * m + j] += x[i * n + k] * x[j * n + k];
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < m; ++j) {
        for (std::size_t k = 0; k < m; ++k) p[i * m + j] += 2.0315 * s[i * m + k] * s[k * m + j];
        p[i * m + j] += -4.7750 * s[i * m + j] + (i == j ? 3.4445 : 0);
      }
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j)
        for (std::size_t k = 0; k < m; ++k) next[i * n + j] += p[i * m + k] * x[k * n + j];
    x = next;
  }
  if (rows <= columns) return x;
  matrix t(x.size());
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) t[i * columns + j] = x[j * rows + i];
  return t;
}
template <class Real>
double difference(const matrix& x, std::size_t rows, std::size_t columns, int steps,
                  int workers = 1) {
  std::vector<Real> own(x.begin(), x.end());
  cpu device{workers};
  newton_schulz<Real>(steps, 1e-7)(own.data(), rows, columns, device.make_stream());
  const matrix expected = by_steps(x, rows, columns, steps);
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(own[i]) - expected[i]));
  return largest;
}

}  // namespace

TEST_CASE("newton_schulz: products of S give the iterates of X") {
  for (const auto& [rows, columns] :
       {std::pair<std::size_t, std::size_t>{1, 1}, {1, 9}, {9, 1}, {16, 16}, {20, 70}, {70, 20}})
    for (const int steps : {1, 2, 5, 6, 12}) {
      CAPTURE(rows);
      CAPTURE(columns);
      CAPTURE(steps);
      const matrix x = noise(rows, columns, 3);
      CHECK(difference<double>(x, rows, columns, steps, 2) < 1e-11);
      CHECK(difference<float>(x, rows, columns, steps) < 2e-3);
    }
}

TEST_CASE("newton_schulz: singular values that rounding hides stay bounded") {
  matrix x = noise(24, 40, 1);
  for (std::size_t k = 0; k < 40; ++k) {
    x[40 + k] = x[k];                                            // a singular value that is zero
    x[80 + k] = x[k] * (1 + 1e-5 * static_cast<double>(k % 3));  // one that is small
  }
  CHECK(difference<float>(x, 24, 40, 5) < 2e-3);
  CHECK(difference<double>(x, 24, 40, 5) < 1e-10);
  std::vector<float> own(x.begin(), x.end());
  newton_schulz<float>(30, 1e-7)(own.data(), 24, 40, cpu::stream{});
  for (std::size_t i = 0; i < 24; ++i) {
    double squares = 0;
    for (std::size_t k = 0; k < 40; ++k)
      squares += static_cast<double>(own[i * 40 + k]) * static_cast<double>(own[i * 40 + k]);
    CHECK(squares < 1.5);  // singular values end below 1.21
  }
}

TEST_CASE("newton_schulz: zeros stay zero, and extreme sizes are those of one") {
  const auto of = [](double size) {
    std::vector<double> x = noise(3, 5, 1);
    for (double& one : x) one *= size;
    newton_schulz<double>(5, 1e-300)(x.data(), 3, 5, cpu::stream{});
    return x;
  };
  for (const double one : of(0)) CHECK(one == 0);
  for (const double size : {1e-200, 1e-170, 1e170, 1e308})
    for (std::size_t i = 0; i < 15; ++i) CHECK(of(size)[i] == doctest::Approx(of(1)[i]));
}
