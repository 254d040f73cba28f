// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One suite that every convolution engine passes, in both precisions.
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/convolution_direct.hpp>
#include <cordee/ops/convolution_reference.hpp>

#include "tests/support/engines.hpp"

using namespace cordee;
using namespace support;

#define CONVOLUTION_ENGINES                                                             \
  engine_of<reference, double>, engine_of<reference, float>, engine_of<direct, double>, \
      engine_of<direct, float>

TEST_CASE_TEMPLATE("every engine computes the three sums of the definition", T,
                   CONVOLUTION_ENGINES) {
  using Real = typename T::real;
  for (const convolution_problem& p : many_shapes)
    for (const int samples : {1, 2, 5}) {
      INFO(T::engine::name, " ", sizeof(Real), " bytes, ", to_text(p), ", samples ", samples);
      const std::size_t n = size(samples);
      const auto x = random_numbers(n * p.in.size(), 1), w = random_numbers(p.weights(), 2),
                 dy = random_numbers(n * p.out().size(), 3);
      sums<Real> y(dy.size()), dx(x.size()), dw(w.size());
      each_product(p, samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
        y.add(iy, w[iw] * x[ix]);
        dx.add(ix, w[iw] * dy[iy]);
        dw.add(iw, dy[iy] * x[ix]);
      });
      harness<typename T::engine, Real> engine{p, samples};
      CHECK(y.error_of(engine.fprop(x, w)) == 0);
      CHECK(dx.error_of(engine.dgrad(dy, w)) == 0);
      CHECK(dw.error_of(engine.wgrad(x, dy)) == 0);
      // What only fills a block was zero and is zero.
      CHECK(engine.filled == 0);
      // Adding: what was there counts as one more term.
      const auto dx0 = random_numbers(x.size(), 4), dw0 = random_numbers(w.size(), 5);
      for (std::size_t i = 0; i < x.size(); ++i) dx.add(i, dx0[i]);
      for (std::size_t i = 0; i < w.size(); ++i) dw.add(i, dw0[i]);
      CHECK(dx.error_of(engine.dgrad(dy, w, dx0)) == 0);
      CHECK(dw.error_of(engine.wgrad(x, dy, dw0)) == 0);
      CHECK(engine.filled == 0);
    }
}

TEST_CASE_TEMPLATE("the three directions are one trilinear form, <dy, w * x>", T,
                   CONVOLUTION_ENGINES) {
  using Real = typename T::real;
  for (const convolution_problem& p : many_shapes) {
    INFO(T::engine::name, " ", sizeof(Real), " bytes, ", to_text(p));
    const int samples = 2;
    const auto x = random_numbers(2 * p.in.size(), 1), w = random_numbers(p.weights(), 2),
               dy = random_numbers(2 * p.out().size(), 3);
    harness<typename T::engine, Real> engine{p, samples};
    double magnitude = 0, terms = 0;
    each_product(p, samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
      magnitude += std::abs(w[iw] * x[ix] * dy[iy]);
      terms += 1;
    });
    const double form = dot(dy, engine.fprop(x, w));
    // The bound of `sums`, for the one long sum that each of these is.
    const double allowed = std::numeric_limits<Real>::epsilon() * magnitude * std::sqrt(terms);
    REQUIRE(allowed < 0.1 * magnitude);
    CHECK(std::abs(dot(engine.dgrad(dy, w), x) - form) <= allowed);
    CHECK(std::abs(dot(engine.wgrad(x, dy), w) - form) <= allowed);
  }
}

TEST_CASE_TEMPLATE("gradients are what finite differences say", T, engine_of<reference, double>,
                   engine_of<direct, double>) {
  // L = <g, y> + |y|^2 / 2 is quadratic in x and in w, so central differences of any length are
  // exact but for rounding.
  for (const convolution_problem& p : {convolution_problem{{5, 6, 7}, 9, 3, 1, 1},
                                       {{16, 7, 7}, 8, 3, 2, 1},
                                       {{3, 9, 8}, 16, 5, 2, 2},
                                       {{8, 5, 4}, 16, 1, 2, 0}}) {
    INFO(T::engine::name, " ", to_text(p));
    harness<typename T::engine, double> engine{p, 2};
    auto x = random_numbers(2 * p.in.size(), 1), w = random_numbers(p.weights(), 2);
    const auto g = random_numbers(2 * p.out().size(), 3);
    const auto loss = [&] {
      const auto y = engine.fprop(x, w);
      return dot(g, y) + dot(y, y) / 2;
    };
    auto dy = engine.fprop(x, w);
    for (std::size_t i = 0; i < dy.size(); ++i) dy[i] += g[i];
    const auto slope_along = [&](std::vector<double>& point, const std::vector<double>& direction) {
      const std::vector<double> here = point;
      double difference = 0;
      for (const double sign : {1.0, -1.0}) {
        for (std::size_t i = 0; i < point.size(); ++i) point[i] = here[i] + sign * direction[i] / 8;
        difference += sign * loss();
      }
      point = here;
      return difference * 4;
    };
    const auto along_x = random_numbers(x.size(), 4), along_w = random_numbers(w.size(), 5);
    const double wanted_x = dot(engine.dgrad(dy, w), along_x);
    const double wanted_w = dot(engine.wgrad(x, dy), along_w);
    CHECK(slope_along(x, along_x) == doctest::Approx(wanted_x).epsilon(1e-10));
    CHECK(slope_along(w, along_w) == doctest::Approx(wanted_w).epsilon(1e-10));
  }
}

TEST_CASE_TEMPLATE("the number of workers does not change a bit", T, CONVOLUTION_ENGINES) {
  using Real = typename T::real;
  for (const convolution_problem& p : {convolution_problem{{3, 9, 8}, 16, 3, 1, 1},
                                       {{16, 8, 8}, 48, 3, 1, 1},
                                       {{16, 9, 9}, 17, 3, 2, 1},
                                       {{32, 5, 7}, 32, 1, 2, 0}}) {
    const int samples = 11;  // divisible by no number of workers and by no number of groups
    const auto x = random_numbers(11 * p.in.size(), 1), w = random_numbers(p.weights(), 2),
               dy = random_numbers(11 * p.out().size(), 3);
    harness<typename T::engine, Real> alone{p, samples};
    const auto y = alone.fprop(x, w), dx = alone.dgrad(dy, w), dw = alone.wgrad(x, dy);
    for (const int workers : {1, 2, 3}) {
      INFO(T::engine::name, " ", to_text(p), ", workers ", workers);
      const cpu device(workers);
      harness<typename T::engine, Real> shared{p, samples, device.open()};
      // Numbers of either precision survive the way to double: equal doubles are equal bits.
      CHECK(shared.fprop(x, w) == y);
      CHECK(shared.dgrad(dy, w) == dx);
      CHECK(shared.wgrad(x, dy) == dw);
    }
  }
}

TEST_CASE_TEMPLATE("a batch of samples is its samples one by one", T, CONVOLUTION_ENGINES) {
  using Real = typename T::real;
  const convolution_problem p{{16, 7, 7}, 32, 3, 1, 1};
  const int samples = 3;
  const auto x = random_numbers(3 * p.in.size(), 1), w = random_numbers(p.weights(), 2);
  harness<typename T::engine, Real> all{p, samples}, one{p, 1};
  const auto y = all.fprop(x, w);
  std::vector<double> single;
  for (std::size_t n = 0; n < 3; ++n) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(n * p.in.size());
    const auto part = one.fprop({begin, begin + static_cast<std::ptrdiff_t>(p.in.size())}, w);
    single.insert(single.end(), part.begin(), part.end());
  }
  CHECK(single == y);
}

TEST_CASE_TEMPLATE("no samples: nothing to write, and a zero weight gradient", T,
                   CONVOLUTION_ENGINES) {
  using Real = typename T::real;
  using Engine = typename T::engine;
  const cpu device(2);
  for (const convolution_problem& p :
       {convolution_problem{{16, 8, 8}, 16, 3, 1, 1}, {{3, 8, 8}, 17, 5, 2, 2}}) {
    const auto w = random_numbers(p.weights(), 1);
    harness<Engine, Real> engine{p, 0, device.open()};
    CHECK(engine.fprop({}, w).empty());
    CHECK(engine.dgrad({}, w).empty());
    CHECK(engine.wgrad({}, {}) == std::vector<double>(p.weights()));
    CHECK(engine.wgrad({}, {}, w) == w);
  }
}

TEST_CASE("a problem counts like the literature") {
  // CIFAR ResNet-20, option A: 40.55e6 multiplications and 269,722 parameters (He et al., 2015), of
  // which the last layer has 640 and 650, and 19 batch norms have 2 x 688.
  std::int64_t macs = 640;
  std::size_t parameters = 650 + 2 * 688;
  const auto count = [&](int times, const convolution_problem& p) {
    macs += times * p.macs();
    parameters += static_cast<std::size_t>(times) * p.weights();
  };
  count(1, {{3, 32, 32}, 16, 3, 1, 1});
  count(6, {{16, 32, 32}, 16, 3, 1, 1});
  count(1, {{16, 32, 32}, 32, 3, 2, 1});
  count(5, {{32, 16, 16}, 32, 3, 1, 1});
  count(1, {{32, 16, 16}, 64, 3, 2, 1});
  count(5, {{64, 8, 8}, 64, 3, 1, 1});
  CHECK(parameters == 269722);
  CHECK(static_cast<double>(macs) == doctest::Approx(40.55e6).epsilon(1e-4));
  CHECK(convolution_problem{{3, 224, 224}, 64, 7, 2, 3}.out() == extent{64, 112, 112});
  CHECK(convolution_problem{{64, 7, 7}, 64, 3, 2, 1}.out() == extent{64, 4, 4});
}
