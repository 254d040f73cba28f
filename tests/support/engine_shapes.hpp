// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Engines against `reference` at the windows, strides, paddings and sides of both families of
// residual networks, odd sides and few pixels included. Channels are few: engine_laws.hpp varies
// them.
//
//   ENGINE_SHAPES(direct, winograd);
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/reference/engine.hpp>

#include "tests/support/engines.hpp"

#define ENGINE_SHAPES(...)                                                          \
  TEST_CASE_TEMPLATE_INVOKE(shapes_large_stem, support::engine_list<__VA_ARGS__>);  \
  TEST_CASE_TEMPLATE_INVOKE(shapes_small_stem, support::engine_list<__VA_ARGS__>);  \
  TEST_CASE_TEMPLATE_INVOKE(shapes_stages, support::engine_list<__VA_ARGS__>);      \
  TEST_CASE_TEMPLATE_INVOKE(shapes_projections, support::engine_list<__VA_ARGS__>); \
  TEST_CASE_TEMPLATE_INVOKE(shapes_few_pixels, support::engine_list<__VA_ARGS__>)

namespace support {

/// Engines that are compared with one run of `reference`, which takes longer than they do: in fp32,
/// and in fp64 where they have it.
template <class... E>
struct engine_list {};
/// In place of an engine: the same in fp16 and bf16.
template <class E>
struct in_16_bits;

/// Numbers that the engine's precisions hold exactly.
template <class... E>
std::vector<double> exact_numbers(engine_list<E...>, std::size_t n, std::uint64_t stream) {
  return random_numbers(n, stream);
}
template <class... E>
std::vector<double> exact_numbers(engine_list<in_16_bits<E>...>, std::size_t n,
                                  std::uint64_t stream) {
  auto v = random_numbers<bfloat>(n, stream);
  for (double& x : v) x = to_double(to_number<half>(x));
  return v;
}

/// Exact results, the magnitudes of their terms, and the number of terms of result i:
/// terms[i % terms.size()], as many for each channel and sample.
struct exact_results {
  std::vector<double> value, magnitude, terms;
};

/// The number of errors above sqrt(n) eps m, with n terms whose magnitudes sum to m (the bound of
/// `sums`), and where sums are stored as N, not wide<N>, the error of that.
template <class N>
std::size_t errors_above_bound(const std::vector<double>& result, const exact_results& exact,
                               bool stored) {
  REQUIRE(result.size() == exact.value.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double allowed = std::numeric_limits<detail::precision::wide<N>>::epsilon() *
                               exact.magnitude[i] *
                               std::sqrt(exact.terms[i % exact.terms.size()] + 1) +
                           (stored ? storage_error<N>(exact.value[i]) : 0);
    if (!(std::abs(result[i] - exact.value[i]) <= allowed)) ++count;
  }
  return count;
}

template <class E, class F>
void compare_in_each_precision(engine_list<E>, const F& compare) {
  compare(engine_of<E, float>{});
  if constexpr (ConvolutionEngine<E, double>) compare(engine_of<E, double>{});
}
template <class E, class F>
void compare_in_each_precision(engine_list<in_16_bits<E>>, const F& compare) {
  compare(engine_of<E, half>{});
  compare(engine_of<E, bfloat>{});
}

/// All three directions of each engine against exact ones.
template <class... E>
void compare_with_reference(engine_list<E...> engines, const convolution_problem& p) {
  const int samples = p.in.pixels() < 300 ? 3 : 1;
  const auto n = size(samples);
  INFO(describe(p), ", samples ", samples);
  const cpu device(2);
  const auto s = device.make_stream();
  const auto x = exact_numbers(engines, n * p.in.size(), 1),
             w = exact_numbers(engines, p.weights(), 2),
             dy = exact_numbers(engines, n * p.out().size(), 3);
  const auto magnitudes = [](std::vector<double> v) {
    for (double& x : v) x = std::abs(x);
    return v;
  };
  const convolution_problem plane{{1, p.in.height, p.in.width}, 1, p.window, p.stride, p.padding};
  const std::vector<double> ones_in(plane.in.size(), 1), ones_out(plane.out().size(), 1),
      ones(plane.weights(), 1);
  harness<reference, double> exact{p, samples, s}, exact_plane{plane, 1, s};
  // `run` on two tensors, and on planes of ones; a result has `times` as many terms as a plane's.
  const auto check = [&](const auto& run, const auto& a, const auto& b, const auto& plane_a,
                         const auto& plane_b, int times, bool stored) {
    exact_results expected{run(exact, a, b), run(exact, magnitudes(a), magnitudes(b)),
                           run(exact_plane, plane_a, plane_b)};
    for (double& terms : expected.terms) terms *= times;
    const auto compare = [&]<class Engine, class Real>(engine_of<Engine, Real>) {
      INFO(Engine::name, ", ", sizeof(Real), " bytes");
      harness<Engine, Real> engine{p, samples, s};
      CHECK(errors_above_bound<Real>(run(engine, a, b), expected, stored) == 0);
      CHECK(engine.padding == 0);
    };
    (compare_in_each_precision(engine_list<E>{}, compare), ...);
  };
  check([](auto& e, const auto& a, const auto& b) { return e.fprop(a, b); }, x, w, ones_in, ones,
        p.in.channels, true);
  check([](auto& e, const auto& a, const auto& b) { return e.dgrad(a, b); }, dy, w, ones_out, ones,
        p.filters, true);
  check([](auto& e, const auto& a, const auto& b) { return e.wgrad(a, b); }, x, dy, ones_in,
        ones_out, samples, false);
}

TEST_CASE_TEMPLATE_DEFINE(
    "engine: the large stem, 7x7 of stride 2 on one and three channels, equals reference", E,
    shapes_large_stem) {
  for (const int side : {7, 8, 15, 32, 33, 64, 65, 112}) {
    compare_with_reference(E{}, {{3, side, side}, 16, 7, 2, 3});
    compare_with_reference(E{}, {{1, side, side}, 17, 7, 2, 3});
  }
  compare_with_reference(E{}, {{3, 224, 224}, 8, 7, 2, 3});
  compare_with_reference(E{}, {{3, 7, 224}, 16, 7, 2, 3});
  compare_with_reference(E{}, {{3, 225, 9}, 16, 7, 2, 3});
  compare_with_reference(E{}, {{3, 31, 18}, 64, 7, 2, 3});
}

TEST_CASE_TEMPLATE_DEFINE(
    "engine: the small stem, 3x3 of stride 1 on one and three channels, equals reference", E,
    shapes_small_stem) {
  for (const int side : {4, 7, 8, 28, 32, 33, 57, 112, 224}) {
    compare_with_reference(E{}, {{3, side, side}, 16, 3, 1, 1});
    compare_with_reference(E{}, {{1, side, side}, 16, 3, 1, 1});
  }
}

TEST_CASE_TEMPLATE_DEFINE(
    "engine: 3x3 of strides 1 and 2 at the sides of every stage equals reference", E,
    shapes_stages) {
  for (const int stride : {1, 2}) {
    for (const int side : {7, 8, 13, 14, 15, 16, 27, 28, 29, 32, 33, 55, 56, 57})
      compare_with_reference(E{}, {{16, side, side}, 16, 3, stride, 1});
    for (const int side : {111, 112, 113})
      compare_with_reference(E{}, {{5, side, side}, 16, 3, stride, 1});
    compare_with_reference(E{}, {{16, 7, 56}, 32, 3, stride, 1});
    compare_with_reference(E{}, {{16, 55, 6}, 32, 3, stride, 1});
    compare_with_reference(E{}, {{64, 7, 7}, 128, 3, stride, 1});
    compare_with_reference(E{}, {{32, 14, 13}, 48, 3, stride, 1});
    compare_with_reference(E{}, {{2, 224, 224}, 3, 3, stride, 1});
    compare_with_reference(E{}, {{16, 224, 5}, 16, 3, stride, 1});
    compare_with_reference(E{}, {{16, 5, 224}, 16, 3, stride, 1});
  }
}

TEST_CASE_TEMPLATE_DEFINE(
    "engine: 1x1 of strides 1 and 2, with fewer, more and equal channels, equals reference", E,
    shapes_projections) {
  for (const int stride : {1, 2}) {
    for (const int side : {7, 8, 13, 14, 15, 28, 29}) {
      compare_with_reference(E{}, {{16, side, side}, 64, 1, stride, 0});
      compare_with_reference(E{}, {{64, side, side}, 16, 1, stride, 0});
    }
    for (const int side : {55, 56, 57, 112, 113})
      compare_with_reference(E{}, {{16, side, side}, 16, 1, stride, 0});
    compare_with_reference(E{}, {{128, 7, 7}, 256, 1, stride, 0});
    compare_with_reference(E{}, {{2, 224, 224}, 16, 1, stride, 0});
    compare_with_reference(E{}, {{16, 9, 56}, 32, 1, stride, 0});
  }
}

TEST_CASE_TEMPLATE_DEFINE("engine: images of a few pixels equal reference", E, shapes_few_pixels) {
  // Each height with two widths or three: what is left over in one direction is the same code for
  // all sizes of the other.
  constexpr int sides[][2] = {{1, 1}, {1, 2}, {1, 5}, {2, 1}, {2, 3}, {3, 2},
                              {3, 5}, {4, 1}, {4, 3}, {5, 2}, {5, 5}, {6, 3}};
  for (const auto& [height, width] : sides)
    for (const int stride : {1, 2}) {
      compare_with_reference(E{}, {{16, height, width}, 32, 3, stride, 1});
      compare_with_reference(E{}, {{32, height, width}, 16, 1, stride, 0});
      compare_with_reference(E{}, {{3, height, width}, 16, 7, stride, 3});
      compare_with_reference(E{}, {{16, height, width}, 16, 5, stride, 2});
    }
}

}  // namespace support
