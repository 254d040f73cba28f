// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/ops/cpu/simd_for_each.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

TEST_CASE_TEMPLATE("simd_for_each: visits every index once, for any start and length", Real, float,
                   double) {
  for (std::size_t first = 0; first < 5; ++first)
    for (std::size_t n = 0; n < 70; ++n) {
      std::vector<Real> x(first + n + 3);
      simd_for_each<Real>(first, first + n,
                          [p = x.data()](auto at) { at.put(p, at(p) + Real{1}); });
      for (std::size_t i = 0; i < x.size(); ++i)
        if (x[i] != (i >= first && i < first + n ? 1 : 0)) FAIL_CHECK(first << " " << n);
    }
}

TEST_CASE("simd_for_each: planes of another type are converted, each number rounded once") {
  for (std::size_t n = 0; n < 40; ++n) {
    std::vector<float> x(n), third(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i) + 0.1f;
    simd_for_each<double>(
        0, n, [from = x.data(), to = third.data()](auto at) { at.put(to, at(from) / 3.0); });
    for (std::size_t i = 0; i < n; ++i)
      CHECK(third[i] == static_cast<float>(static_cast<double>(x[i]) / 3));
  }
}

TEST_CASE_TEMPLATE("simd_for_each: clamped limits both signs, and NaN stays NaN", Real, float,
                   double) {
  const Real nan = std::numeric_limits<Real>::quiet_NaN();
  std::vector<Real> x(40, Real{3}), expected(40, Real{2});
  x[1] = x[38] = -5;
  expected[1] = expected[38] = -2;
  x[2] = x[39] = Real{0.5};
  expected[2] = expected[39] = Real{0.5};
  x[3] = x[37] = nan;
  simd_for_each<Real>(0, x.size(),
                      [p = x.data()](auto at) { at.put(p, at.clamped(at(p), Real{2})); });
  for (std::size_t i = 0; i < x.size(); ++i) {
    CAPTURE(i);
    if (i == 3 || i == 37)
      CHECK(std::isnan(x[i]));
    else
      CHECK(x[i] == expected[i]);
  }
}

TEST_CASE_TEMPLATE("simd_for_each: root equals sqrt, for every exponent", Real, float, double) {
  using limits = std::numeric_limits<Real>;
  random_sequence draw(1, purpose::test, 0, 0);
  std::vector<Real> x{0, limits::denorm_min(), limits::min(), limits::max(), limits::infinity()};
  for (int e = limits::min_exponent - limits::digits; e < limits::max_exponent; ++e)
    for (int k = 0; k < 64; ++k) x.push_back(std::ldexp(static_cast<Real>(1 + draw.uniform()), e));
  std::vector<Real> roots(x), expected(x);
  for (Real& r : expected) r = std::sqrt(r);
  simd_for_each<Real>(0, x.size(), [p = roots.data()](auto at) { at.put(p, at.root(at(p))); });
  CHECK(roots == expected);
}
