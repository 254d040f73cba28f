// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An engine against `reference` at the windows, strides, paddings and sides of both families of
// residual networks, odd ones and few pixels included. Channels are few: what they do to an engine
// is engine_laws.hpp's.
//
//   ENGINE_SHAPES(direct);
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/convolution_reference.hpp>

#include "tests/support/engines.hpp"

#define ENGINE_SHAPES(...)                                    \
  TEST_CASE_TEMPLATE_INVOKE(shapes_large_stem, __VA_ARGS__);  \
  TEST_CASE_TEMPLATE_INVOKE(shapes_small_stem, __VA_ARGS__);  \
  TEST_CASE_TEMPLATE_INVOKE(shapes_stages, __VA_ARGS__);      \
  TEST_CASE_TEMPLATE_INVOKE(shapes_projections, __VA_ARGS__); \
  TEST_CASE_TEMPLATE_INVOKE(shapes_few_pixels, __VA_ARGS__)

namespace support {

/// How many numbers are off by more than sqrt(n) eps m, n and m the terms of the sum and the sum of
/// their magnitudes (`sums` says why).
template <class Real>
std::size_t far_off(const std::vector<double>& found, const std::vector<double>& exact,
                    const std::vector<double>& magnitude, const std::vector<double>& terms) {
  REQUIRE(found.size() == exact.size());
  std::size_t far = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double allowed =
        std::numeric_limits<Real>::epsilon() * magnitude[i] * std::sqrt(terms[i] + 1);
    if (!(std::abs(found[i] - exact[i]) <= allowed)) ++far;
  }
  return far;
}

/// All three directions of an engine beside the exact ones.
template <class Engine>
void agree(const convolution_problem& p) {
  const int samples = p.in.pixels() < 300 ? 3 : 1;
  const auto n = size(samples);
  INFO(Engine::name, ": ", to_text(p), ", samples ", samples);
  const cpu device(2);
  const auto s = device.open();
  const auto x = random_numbers(n * p.in.size(), 1), w = random_numbers(p.weights(), 2),
             dy = random_numbers(n * p.out().size(), 3);
  const auto magnitudes = [](std::vector<double> v) {
    for (double& one : v) one = std::abs(one);
    return v;
  };
  const auto ones = [](const std::vector<double>& v) { return std::vector<double>(v.size(), 1.0); };
  harness<reference, double> exact{p, samples, s};
  const auto check = [&](const auto& run, const auto& a, const auto& b) {
    const auto wanted = run(exact, a, b), magnitude = run(exact, magnitudes(a), magnitudes(b)),
               terms = run(exact, ones(a), ones(b));
    const auto in = [&]<class Real>(Real) {
      INFO(sizeof(Real), " bytes");
      harness<Engine, Real> engine{p, samples, s};
      CHECK(far_off<Real>(run(engine, a, b), wanted, magnitude, terms) == 0);
      CHECK(engine.filled == 0);
    };
    in(float{});
    if constexpr (ConvolutionEngine<Engine, double>) in(double{});
  };
  check([](auto& e, const auto& a, const auto& b) { return e.fprop(a, b); }, x, w);
  check([](auto& e, const auto& a, const auto& b) { return e.dgrad(a, b); }, dy, w);
  check([](auto& e, const auto& a, const auto& b) { return e.wgrad(a, b); }, x, dy);
}

TEST_CASE_TEMPLATE_DEFINE(
    "an engine is right in the large stem, 7x7 of stride 2 on one and three channels", E,
    shapes_large_stem) {
  for (const int side : {7, 8, 15, 32, 33, 64, 65, 112}) {
    agree<E>({{3, side, side}, 16, 7, 2, 3});
    agree<E>({{1, side, side}, 17, 7, 2, 3});
  }
  agree<E>({{3, 224, 224}, 8, 7, 2, 3});
  agree<E>({{3, 7, 224}, 16, 7, 2, 3});
  agree<E>({{3, 225, 9}, 16, 7, 2, 3});
  agree<E>({{3, 31, 18}, 64, 7, 2, 3});
}

TEST_CASE_TEMPLATE_DEFINE(
    "an engine is right in the small stem, 3x3 of stride 1 on one and three channels", E,
    shapes_small_stem) {
  for (const int side : {4, 7, 8, 28, 32, 33, 57, 112, 224}) {
    agree<E>({{3, side, side}, 16, 3, 1, 1});
    agree<E>({{1, side, side}, 16, 3, 1, 1});
  }
}

TEST_CASE_TEMPLATE_DEFINE(
    "an engine is right in 3x3 of strides 1 and 2 at the sides of every stage", E, shapes_stages) {
  for (const int stride : {1, 2}) {
    for (const int side : {7, 8, 13, 14, 15, 16, 27, 28, 29, 32, 33, 55, 56, 57})
      agree<E>({{16, side, side}, 16, 3, stride, 1});
    for (const int side : {111, 112, 113}) agree<E>({{5, side, side}, 16, 3, stride, 1});
    agree<E>({{16, 7, 56}, 32, 3, stride, 1});
    agree<E>({{16, 55, 6}, 32, 3, stride, 1});
    agree<E>({{64, 7, 7}, 128, 3, stride, 1});
    agree<E>({{32, 14, 13}, 48, 3, stride, 1});
    agree<E>({{2, 224, 224}, 3, 3, stride, 1});
    agree<E>({{16, 224, 5}, 16, 3, stride, 1});
    agree<E>({{16, 5, 224}, 16, 3, stride, 1});
  }
}

TEST_CASE_TEMPLATE_DEFINE(
    "an engine is right in 1x1 of strides 1 and 2, narrowing, widening and projecting", E,
    shapes_projections) {
  for (const int stride : {1, 2}) {
    for (const int side : {7, 8, 13, 14, 15, 28, 29}) {
      agree<E>({{16, side, side}, 64, 1, stride, 0});
      agree<E>({{64, side, side}, 16, 1, stride, 0});
    }
    for (const int side : {55, 56, 57, 112, 113}) agree<E>({{16, side, side}, 16, 1, stride, 0});
    agree<E>({{128, 7, 7}, 256, 1, stride, 0});
    agree<E>({{2, 224, 224}, 16, 1, stride, 0});
    agree<E>({{16, 9, 56}, 32, 1, stride, 0});
  }
}

TEST_CASE_TEMPLATE_DEFINE(
    "an engine is right where the last stages of small images have a handful of pixels", E,
    shapes_few_pixels) {
  for (const int height : {1, 2, 3, 4, 5, 6})
    for (const int width : {1, 2, 3, 5})
      for (const int stride : {1, 2}) {
        agree<E>({{16, height, width}, 32, 3, stride, 1});
        agree<E>({{32, height, width}, 16, 1, stride, 0});
        agree<E>({{3, height, width}, 16, 7, stride, 3});
        agree<E>({{16, height, width}, 16, 5, stride, 2});
      }
}

}  // namespace support
