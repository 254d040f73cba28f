// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/cholesky.hpp>

using namespace cordee;
using detail::core::cholesky;

namespace {

bool near(double x, double y, double tolerance) { return std::abs(x - y) <= tolerance; }

}  // namespace

TEST_CASE("cholesky: solves K x = b, knows log det, and refuses a matrix that is not positive") {
  // K = A A^T + I of whole numbers, whose products with x are exact.
  constexpr std::size_t n = 7;
  std::vector<double> k(n * n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      k[i * n + j] = i == j ? 1 : 0;
      for (std::size_t c = 0; c < n; ++c)
        k[i * n + j] += static_cast<double>((i * 3 + c * 5) % 4 * ((j * 3 + c * 5) % 4));
    }
  std::vector<double> b(n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) b[i] += k[i * n + j] * (static_cast<double>(j) - 2);
  // Columns b, 2 b, ...; condition number below trace(K) = 200 over an eigenvalue of 1 or more.
  std::vector<cholesky::row> columns(n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t c = 0; c < columns[i].size(); ++c)
      columns[i][c] = static_cast<double>(c + 1) * b[i];
  cholesky(k, n).solve(columns);
  for (std::size_t j = 0; j < n; ++j)
    for (std::size_t c = 0; c < columns[j].size(); ++c)
      CHECK(near(columns[j][c], static_cast<double>(c + 1) * (static_cast<double>(j) - 2), 1e-11));
  // Zeros in front need no arithmetic, and change no bit.
  std::vector<cholesky::row> late(n);
  late[4][0] = 1, late[5][3] = -2;
  auto whole = late;
  cholesky(k, n).solve(late, 4);
  cholesky(k, n).solve(whole);
  CHECK(late == whole);
  CHECK(cholesky({4, 0, 2, 5}, 2).lower(1, 0) == 1);
  CHECK(cholesky({4, 0, 2, 5}, 2).lower(1, 1) == 2);
  CHECK(near(cholesky({4, 0, 2, 5}, 2).log_diagonal(), std::log(4.0), 1e-15));  // det 16
  CHECK_THROWS_AS(cholesky({1, 0, 2, 1}, 2), error);
}
