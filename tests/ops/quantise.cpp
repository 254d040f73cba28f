// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/quantise.hpp>

using namespace cordee;

TEST_CASE("quantise: the worked range [-1, 3], signed and unsigned") {
  const auto k = fit_affine(-1.0, 3.0, signed_bytes);
  CHECK(k.scale == 0.01568627450980392);
  CHECK(k.zero == -64);
  const std::array x{-1.5, -1.0, -.004, 0.0, .0078, .5, 1.0, 2.999, 3.0, 3.5};
  const std::array q{-128, -128, -64, -64, -64, -32, 0, 127, 127, 127};
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(k.quantise(x[i]) == q[i]);
  CHECK(k.dequantise(127) == doctest::Approx(2.99607843137).epsilon(1e-11));
  CHECK(k.dequantise(-128) == doctest::Approx(-1.00392156863).epsilon(1e-11));
  const auto u = fit_affine(-1.0, 3.0, unsigned_bytes);
  CHECK(u.scale == k.scale);
  CHECK(u.zero == 64);
  const auto f = fit_affine(-1.0f, 3.0f, unsigned_bytes);
  CHECK(f.scale == static_cast<float>(k.scale));
  CHECK(f.inverse == 1 / f.scale);
  CHECK(f.zero == 64);
}

TEST_CASE_TEMPLATE("quantise: zero is exact, and what is inside loses half a step", Real, float,
                   double) {
  for (const whole_range to : {unsigned_bytes, signed_bytes})
    for (const auto& [a, b] : std::vector<std::pair<Real, Real>>{
             {-1, 3}, {0, 6}, {-4, 0}, {Real(-.1), Real(.2)}, {-1000, 1}, {Real(1e-20), 7}}) {
      const auto k = fit_affine(a, b, to);
      CHECK(k.simulate(0) == 0);
      CHECK(k.quantise(0) == k.zero);
      CHECK(k.zero >= to.low);
      CHECK(k.zero <= to.high);
      for (int i = 0; i <= 1000; ++i) {
        const Real x = a + (b - a) * static_cast<Real>(i) / 1000;
        CHECK(std::abs(k.simulate(x) - x) <= k.scale * Real(1.0001));  // ends move by half a step
        CHECK(k.quantise(k.simulate(x)) == k.quantise(x));
      }
    }
}

TEST_CASE("quantise: a range that lies beside zero is extended to hold it") {
  CHECK(fit_affine(2.0f, 5.1f, unsigned_bytes).zero == 0);
  CHECK(fit_affine(2.0f, 5.1f, unsigned_bytes).scale == fit_affine(0.0f, 5.1f, {}).scale);
  CHECK(fit_affine(-5.1f, -2.0f, unsigned_bytes).zero == 255);
  CHECK(fit_affine(-5.1f, -2.0f, signed_bytes).zero == 127);
}

TEST_CASE_TEMPLATE("quantise: degenerate, tiny, huge, unseen and infinite ranges", Real, float,
                   double) {
  using limits = std::numeric_limits<Real>;
  const auto none = fit_affine(Real{0}, Real{0}, unsigned_bytes);
  CHECK(none.scale == 1);
  CHECK(none.zero == 0);
  CHECK(none.simulate(0) == 0);
  CHECK(fit_affine(Real{-0.0}, Real{0}, signed_bytes).zero == 0);
  // Nothing overflows, and zero stays zero.
  for (const Real tiny : {limits::denorm_min(), limits::min(), limits::min() * 100}) {
    const auto k = fit_affine(-tiny, tiny, unsigned_bytes);
    CHECK(std::isfinite(k.inverse));
    CHECK(k.simulate(0) == 0);
    CHECK(std::abs(k.simulate(tiny)) <= 2 * limits::min() + tiny);
  }
  const auto wide = fit_affine(-limits::max() / 2, limits::max() / 4, unsigned_bytes);
  CHECK(std::isfinite(wide.scale));
  CHECK(wide.zero == 170);
  CHECK(wide.simulate(0) == 0);
  const Real inf = limits::infinity(), nan = limits::quiet_NaN();
  for (const auto& [a, b] : std::vector<std::pair<Real, Real>>{
           {inf, -inf}, {-1, inf}, {-inf, 1}, {nan, 1}, {-1, nan}, {nan, nan}, {2, 1}}) {
    const auto k = fit_affine(a, b, unsigned_bytes);
    CHECK(std::isnan(k.scale));
    CHECK(std::isnan(k.simulate(1)));
    CHECK(k.zero >= 0);
    CHECK(k.quantise(1) >= 0);
    CHECK(k.quantise(1) <= 255);
    CHECK_FALSE(k.passes(1));
  }
}

TEST_CASE("quantise: what is not finite is clipped in a finite range, never cast") {
  const auto k = fit_affine(-1.0f, 3.0f, unsigned_bytes);
  using limits = std::numeric_limits<float>;
  CHECK(k.quantise(limits::infinity()) == 255);
  CHECK(k.quantise(-limits::infinity()) == 0);
  CHECK(k.quantise(limits::max()) == 255);
  CHECK(k.quantise(limits::quiet_NaN()) == 0);
  for (const float x : {limits::infinity(), -limits::infinity(), limits::quiet_NaN()})
    CHECK_FALSE(k.passes(x));
}

TEST_CASE("quantise: a zero point out of range is moved to its end") {
  // A range that barely leaves zero: the end's own rounding must not leave the integers.
  for (const float b : {1.0f, 3.0f, 255.0f, 0.3f}) {
    CHECK(fit_affine(-1e-9f * b, b, unsigned_bytes).zero == 0);
    CHECK(fit_affine(-b, 1e-9f * b, unsigned_bytes).zero == 255);
    CHECK(fit_affine(-b, 1e-9f * b, signed_bytes).zero == 127);
  }
}

TEST_CASE("quantise: ties go to the even number") {
  const affine<float> k{1, 1, 3, unsigned_bytes};  // an odd zero point: x is rounded, not x + z
  for (int i = -3; i < 100; ++i) {
    const float x = static_cast<float>(i) + 0.5f;
    CHECK(k.quantise(x) == std::max(0, static_cast<int>(std::nearbyint(x)) + 3));
  }
}

TEST_CASE("straight through: the rounded number decides before it is clipped, bounds included") {
  const affine<double> k{1, 1, 4, {0, 9}};  // x from -4 to 5
  const auto wanted = [](double x) {
    const double r = std::nearbyint(x) + 4;
    return 0 <= r && r <= 9;
  };
  for (int i = -200; i <= 200; ++i)
    for (const double x :
         {i / 16.0, std::nextafter(i / 16.0, -99.0), std::nextafter(i / 16.0, 99.0)})
      CHECK(k.passes(x) == wanted(x));
  CHECK(k.passes(-4.5));  // a tie, to the even -4
  CHECK_FALSE(k.passes(std::nextafter(-4.5, -5.0)));
  CHECK_FALSE(k.passes(5.5));  // to the even 6
  CHECK(k.passes(std::nextafter(5.5, 5.0)));
}

TEST_CASE("weights: each channel by its own largest, the worked ones exactly") {
  const std::vector<double> w{0.5, -1.27, 0.3};
  std::vector<std::int8_t> q(3);
  CHECK(quantise_channel<double>(3, w.data(), q.data()) == 0.01);
  CHECK(q == std::vector<std::int8_t>{50, -127, 30});
  const std::vector<double> v{0.02, 0.01, -0.005};
  CHECK(quantise_channel<double>(3, v.data(), q.data()) ==
        doctest::Approx(0.000157480314961).epsilon(1e-11));
  CHECK(q == std::vector<std::int8_t>{127, 64, -32});
  const std::vector<float> f{0.02f, 0.01f, -0.005f};
  quantise_channel<float>(3, f.data(), q.data());
  CHECK(q == std::vector<std::int8_t>{127, 64, -32});
}

TEST_CASE("weights: never -128, and channels of zeros, tiny numbers and infinities are defined") {
  std::vector<std::int8_t> q(2);
  for (const float w : {1e-38f, 0.3f, 1.0f, 7.7f, 3e38f}) {
    const std::array pair{-w, w / 3};
    const float scale = quantise_channel<float>(2, pair.data(), q.data());
    CHECK(q[0] >= -127);
    CHECK(std::abs(static_cast<float>(q[0]) * scale + w) <= scale / 2);
  }
  const std::array zeros{0.0f, -0.0f};
  CHECK(quantise_channel<float>(2, zeros.data(), q.data()) == 1);
  CHECK(q == std::vector<std::int8_t>{0, 0});
  const float inf = std::numeric_limits<float>::infinity();
  for (const auto& bad :
       {std::array{1.0f, inf}, {-inf, 1.0f}, {std::nanf(""), 1.0f}, {1.0f, std::nanf("")}})
    CHECK(std::isnan(quantise_channel<float>(2, bad.data(), q.data())));
}

TEST_CASE("weights: no gradient is masked, for none is clipped") {
  for (int i = 1; i < 2000; ++i) {
    const float most = static_cast<float>(i) * 0.0137f;
    const auto k = fit_symmetric(most);
    CHECK(k.passes(most));
    CHECK(k.passes(-most));
    CHECK(k.quantise(most) == 127);
  }
}
