// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The laws of convolution engines, in every precision of an engine:
//
//   ENGINE_LAWS(engine_of<direct, float>, engine_of<direct, double>);
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/engines.hpp"

#define ENGINE_LAWS(...)                                     \
  TEST_CASE_TEMPLATE_INVOKE(engine_sums, __VA_ARGS__);       \
  TEST_CASE_TEMPLATE_INVOKE(engine_directions, __VA_ARGS__); \
  TEST_CASE_TEMPLATE_INVOKE(engine_masters, __VA_ARGS__);    \
  TEST_CASE_TEMPLATE_INVOKE(engine_workers, __VA_ARGS__);    \
  TEST_CASE_TEMPLATE_INVOKE(engine_samples, __VA_ARGS__);    \
  TEST_CASE_TEMPLATE_INVOKE(engine_nothing, __VA_ARGS__)

namespace support {

TEST_CASE_TEMPLATE_DEFINE("engine: fprop, dgrad and wgrad equal the sums of the definition", T,
                          engine_sums) {
  using Real = typename T::real;
  for (const convolution_problem& p : many_shapes)
    for (const int samples : {1, 2, 5}) {
      INFO(T::engine::name, " ", sizeof(Real), " bytes, ", describe(p), ", samples ", samples);
      const std::size_t n = size(samples);
      const auto x = random_numbers<Real>(n * p.in.size(), 1),
                 w = random_numbers<Real>(p.weights(), 2),
                 dy = random_numbers<Real>(n * p.out().size(), 3);
      sums<Real> y(dy.size()), dx(x.size());
      sums<Real, wide<Real>> dw(w.size());
      for_each_product(p, samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
        y.add(iy, w[iw] * x[ix]);
        dx.add(ix, w[iw] * dy[iy]);
        dw.add(iw, dy[iy] * x[ix]);
      });
      harness<typename T::engine, Real> engine{p, samples};
      CHECK(y.error_of(engine.fprop(x, w)) == 0);
      CHECK(dx.error_of(engine.dgrad(dy, w)) == 0);
      CHECK(dw.error_of(engine.wgrad(x, dy)) == 0);
      // Padding channels are zero.
      CHECK(engine.padding == 0);
      // Adding: the previous value is one more term.
      const auto dx0 = random_numbers<Real>(x.size(), 4), dw0 = random_numbers<Real>(w.size(), 5);
      for (std::size_t i = 0; i < x.size(); ++i) dx.add(i, dx0[i]);
      for (std::size_t i = 0; i < w.size(); ++i) dw.add(i, dw0[i]);
      CHECK(dx.error_of(engine.dgrad(dy, w, dx0)) == 0);
      CHECK(dw.error_of(engine.wgrad(x, dy, dw0)) == 0);
      CHECK(engine.padding == 0);
    }
}

TEST_CASE_TEMPLATE_DEFINE("engine: the three directions are one trilinear form, <dy, w * x>", T,
                          engine_directions) {
  using Real = typename T::real;
  for (const convolution_problem& p : many_shapes) {
    INFO(T::engine::name, " ", sizeof(Real), " bytes, ", describe(p));
    const int samples = 2;
    const auto x = random_numbers<Real>(2 * p.in.size(), 1),
               w = random_numbers<Real>(p.weights(), 2),
               dy = random_numbers<Real>(2 * p.out().size(), 3);
    harness<typename T::engine, Real> engine{p, samples};
    double magnitude = 0, terms = 0;
    for_each_product(p, samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
      magnitude += std::abs(w[iw] * x[ix] * dy[iy]);
      terms += 1;
    });
    const auto y = engine.fprop(x, w), dx = engine.dgrad(dy, w);
    const double form = dot(dy, y);
    // The bound of `sums`, for the one long sum that each of these is.
    double allowed = std::numeric_limits<wide<Real>>::epsilon() * magnitude * std::sqrt(terms);
    for (std::size_t i = 0; i < y.size(); ++i) allowed += storage_error<Real>(dy[i] * y[i]);
    for (std::size_t i = 0; i < x.size(); ++i) allowed += storage_error<Real>(dx[i] * x[i]);
    REQUIRE(allowed < 0.1 * magnitude);
    CHECK(std::abs(dot(dx, x) - form) <= allowed);
    CHECK(std::abs(dot(engine.wgrad(x, dy), w) - form) <= allowed);
  }
}

TEST_CASE_TEMPLATE_DEFINE("engine: packed weights are the masters, rounded to the storage", T,
                          engine_masters) {
  using N = typename T::real;
  for (const convolution_problem& p : {convolution_problem{{16, 6, 5}, 32, 3, 1, 1},
                                       {{3, 6, 5}, 16, 3, 1, 1},
                                       {{16, 7, 7}, 17, 3, 2, 1}}) {
    INFO(T::engine::name, " ", describe(p));
    const auto masters = random_numbers(p.weights(), 1);
    auto stored = masters;
    for (double& w : stored) w = to_double(to_number<N>(w));
    CHECK((stored == masters) == !detail::precision::StorageOnly<N>);
    const auto x = random_numbers<N>(p.in.size(), 2), dy = random_numbers<N>(p.out().size(), 3);
    harness<typename T::engine, N> engine{p};
    CHECK(engine.fprop(x, masters) == engine.fprop(x, stored));
    CHECK(engine.dgrad(dy, masters) == engine.dgrad(dy, stored));
  }
}

TEST_CASE_TEMPLATE_DEFINE("engine: the number of workers does not change a bit", T,
                          engine_workers) {
  using Real = typename T::real;
  for (const convolution_problem& p : {convolution_problem{{3, 9, 8}, 16, 3, 1, 1},
                                       {{16, 8, 8}, 48, 3, 1, 1},
                                       {{16, 9, 9}, 17, 3, 2, 1},
                                       {{32, 5, 7}, 32, 1, 2, 0}}) {
    const int samples = 11;  // divisible by no number of workers and by no number of groups
    const auto x = random_numbers<Real>(11 * p.in.size(), 1),
               w = random_numbers<Real>(p.weights(), 2),
               dy = random_numbers<Real>(11 * p.out().size(), 3);
    harness<typename T::engine, Real> serial{p, samples};
    const auto y = serial.fprop(x, w), dx = serial.dgrad(dy, w), dw = serial.wgrad(x, dy);
    for (const int workers : {1, 2, 3}) {
      INFO(T::engine::name, " ", describe(p), ", workers ", workers);
      const cpu device(workers);
      harness<typename T::engine, Real> parallel{p, samples, device.make_stream()};
      // Both precisions convert to double exactly: equal doubles are equal bits.
      CHECK(parallel.fprop(x, w) == y);
      CHECK(parallel.dgrad(dy, w) == dx);
      CHECK(parallel.wgrad(x, dy) == dw);
    }
  }
}

TEST_CASE_TEMPLATE_DEFINE("engine: a batch of samples equals its samples one by one", T,
                          engine_samples) {
  using Real = typename T::real;
  const convolution_problem p{{16, 7, 7}, 32, 3, 1, 1};
  const int samples = 3;
  const auto x = random_numbers<Real>(3 * p.in.size(), 1), w = random_numbers<Real>(p.weights(), 2);
  harness<typename T::engine, Real> batch{p, samples}, sample{p, 1};
  const auto y = batch.fprop(x, w);
  std::vector<double> single;
  for (std::size_t n = 0; n < 3; ++n) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(n * p.in.size());
    const auto part = sample.fprop({begin, begin + static_cast<std::ptrdiff_t>(p.in.size())}, w);
    single.insert(single.end(), part.begin(), part.end());
  }
  CHECK(single == y);
}

TEST_CASE_TEMPLATE_DEFINE("engine: no samples write nothing, and have a zero weight gradient", T,
                          engine_nothing) {
  using Real = typename T::real;
  using Engine = typename T::engine;
  const cpu device(2);
  for (const convolution_problem& p :
       {convolution_problem{{16, 8, 8}, 16, 3, 1, 1}, {{3, 8, 8}, 17, 5, 2, 2}}) {
    const auto w = random_numbers<Real>(p.weights(), 1);
    harness<Engine, Real> engine{p, 0, device.make_stream()};
    CHECK(engine.fprop({}, w).empty());
    CHECK(engine.dgrad({}, w).empty());
    CHECK(engine.wgrad({}, {}) == std::vector<double>(p.weights()));
    CHECK(engine.wgrad({}, {}, w) == w);
  }
}

}  // namespace support
