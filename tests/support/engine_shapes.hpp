// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An engine against `reference` at the windows, strides, paddings and sides of both families of
// residual networks, odd sides and few pixels included. Channels are few: engine_laws.hpp varies
// them.
//
//   ENGINE_SHAPES(direct);
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/reference/engine.hpp>

#include "tests/support/engines.hpp"

#define ENGINE_SHAPES(...)                                    \
  TEST_CASE_TEMPLATE_INVOKE(shapes_large_stem, __VA_ARGS__);  \
  TEST_CASE_TEMPLATE_INVOKE(shapes_small_stem, __VA_ARGS__);  \
  TEST_CASE_TEMPLATE_INVOKE(shapes_stages, __VA_ARGS__);      \
  TEST_CASE_TEMPLATE_INVOKE(shapes_projections, __VA_ARGS__); \
  TEST_CASE_TEMPLATE_INVOKE(shapes_few_pixels, __VA_ARGS__)

namespace support {

/// The number of errors above sqrt(n) eps m, with n terms whose magnitudes sum to m (the bound of
/// `sums`).
template <class Real>
std::size_t errors_above_bound(const std::vector<double>& result, const std::vector<double>& exact,
                               const std::vector<double>& magnitude,
                               const std::vector<double>& terms) {
  REQUIRE(result.size() == exact.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double allowed =
        std::numeric_limits<Real>::epsilon() * magnitude[i] * std::sqrt(terms[i] + 1);
    if (!(std::abs(result[i] - exact[i]) <= allowed)) ++count;
  }
  return count;
}

/// All three directions of an engine against exact ones.
template <class Engine>
void compare_with_reference(const convolution_problem& p) {
  const int samples = p.in.pixels() < 300 ? 3 : 1;
  const auto n = size(samples);
  INFO(Engine::name, ": ", describe(p), ", samples ", samples);
  const cpu device(2);
  const auto s = device.make_stream();
  const auto x = random_numbers(n * p.in.size(), 1), w = random_numbers(p.weights(), 2),
             dy = random_numbers(n * p.out().size(), 3);
  const auto magnitudes = [](std::vector<double> v) {
    for (double& x : v) x = std::abs(x);
    return v;
  };
  const auto ones = [](const std::vector<double>& v) { return std::vector<double>(v.size(), 1.0); };
  harness<reference, double> exact{p, samples, s};
  const auto check = [&](const auto& run, const auto& a, const auto& b) {
    const auto expected = run(exact, a, b), magnitude = run(exact, magnitudes(a), magnitudes(b)),
               terms = run(exact, ones(a), ones(b));
    const auto compare = [&]<class Real>(Real) {
      INFO(sizeof(Real), " bytes");
      harness<Engine, Real> engine{p, samples, s};
      CHECK(errors_above_bound<Real>(run(engine, a, b), expected, magnitude, terms) == 0);
      CHECK(engine.padding == 0);
    };
    compare(float{});
    if constexpr (ConvolutionEngine<Engine, double>) compare(double{});
  };
  check([](auto& e, const auto& a, const auto& b) { return e.fprop(a, b); }, x, w);
  check([](auto& e, const auto& a, const auto& b) { return e.dgrad(a, b); }, dy, w);
  check([](auto& e, const auto& a, const auto& b) { return e.wgrad(a, b); }, x, dy);
}

TEST_CASE_TEMPLATE_DEFINE(
    "engine: the large stem, 7x7 of stride 2 on one and three channels, equals reference", E,
    shapes_large_stem) {
  for (const int side : {7, 8, 15, 32, 33, 64, 65, 112}) {
    compare_with_reference<E>({{3, side, side}, 16, 7, 2, 3});
    compare_with_reference<E>({{1, side, side}, 17, 7, 2, 3});
  }
  compare_with_reference<E>({{3, 224, 224}, 8, 7, 2, 3});
  compare_with_reference<E>({{3, 7, 224}, 16, 7, 2, 3});
  compare_with_reference<E>({{3, 225, 9}, 16, 7, 2, 3});
  compare_with_reference<E>({{3, 31, 18}, 64, 7, 2, 3});
}

TEST_CASE_TEMPLATE_DEFINE(
    "engine: the small stem, 3x3 of stride 1 on one and three channels, equals reference", E,
    shapes_small_stem) {
  for (const int side : {4, 7, 8, 28, 32, 33, 57, 112, 224}) {
    compare_with_reference<E>({{3, side, side}, 16, 3, 1, 1});
    compare_with_reference<E>({{1, side, side}, 16, 3, 1, 1});
  }
}

TEST_CASE_TEMPLATE_DEFINE(
    "engine: 3x3 of strides 1 and 2 at the sides of every stage equals reference", E,
    shapes_stages) {
  for (const int stride : {1, 2}) {
    for (const int side : {7, 8, 13, 14, 15, 16, 27, 28, 29, 32, 33, 55, 56, 57})
      compare_with_reference<E>({{16, side, side}, 16, 3, stride, 1});
    for (const int side : {111, 112, 113})
      compare_with_reference<E>({{5, side, side}, 16, 3, stride, 1});
    compare_with_reference<E>({{16, 7, 56}, 32, 3, stride, 1});
    compare_with_reference<E>({{16, 55, 6}, 32, 3, stride, 1});
    compare_with_reference<E>({{64, 7, 7}, 128, 3, stride, 1});
    compare_with_reference<E>({{32, 14, 13}, 48, 3, stride, 1});
    compare_with_reference<E>({{2, 224, 224}, 3, 3, stride, 1});
    compare_with_reference<E>({{16, 224, 5}, 16, 3, stride, 1});
    compare_with_reference<E>({{16, 5, 224}, 16, 3, stride, 1});
  }
}

TEST_CASE_TEMPLATE_DEFINE(
    "engine: 1x1 of strides 1 and 2, with fewer, more and equal channels, equals reference", E,
    shapes_projections) {
  for (const int stride : {1, 2}) {
    for (const int side : {7, 8, 13, 14, 15, 28, 29}) {
      compare_with_reference<E>({{16, side, side}, 64, 1, stride, 0});
      compare_with_reference<E>({{64, side, side}, 16, 1, stride, 0});
    }
    for (const int side : {55, 56, 57, 112, 113})
      compare_with_reference<E>({{16, side, side}, 16, 1, stride, 0});
    compare_with_reference<E>({{128, 7, 7}, 256, 1, stride, 0});
    compare_with_reference<E>({{2, 224, 224}, 16, 1, stride, 0});
    compare_with_reference<E>({{16, 9, 56}, 32, 1, stride, 0});
  }
}

TEST_CASE_TEMPLATE_DEFINE("engine: images of a few pixels equal reference", E, shapes_few_pixels) {
  for (const int height : {1, 2, 3, 4, 5, 6})
    for (const int width : {1, 2, 3, 5})
      for (const int stride : {1, 2}) {
        compare_with_reference<E>({{16, height, width}, 32, 3, stride, 1});
        compare_with_reference<E>({{32, height, width}, 16, 1, stride, 0});
        compare_with_reference<E>({{3, height, width}, 16, 7, stride, 3});
        compare_with_reference<E>({{16, height, width}, 16, 5, stride, 2});
      }
}

}  // namespace support
