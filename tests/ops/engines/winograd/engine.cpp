// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Engine `winograd` passes the laws of engines, with errors about those of `direct`; its shapes are
// in ../shapes.cpp.
#include <cmath>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/winograd/engine.hpp>
#include <cordee/precision/fp64.hpp>

#include "tests/support/direct_engines.hpp"
#include "tests/support/engine_laws.hpp"
#include "tests/support/further_types.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace cordee::detail::precision;
using namespace support;

ENGINE_LAWS(engine_of<winograd, float>, engine_of<winograd_with<16>, float>,
            engine_of<winograd, bfloat> FURTHER_TYPES(, engine_of<winograd, double>,
                                                      engine_of<winograd, half>));

namespace {

/// All three directions, from and to NCHW.
template <class Engine, class Real>
std::vector<std::vector<double>> all_directions(const convolution_problem& p,
                                                const std::vector<double>& x,
                                                const std::vector<double>& w,
                                                const std::vector<double>& dy) {
  harness<Engine, Real> engine{p, 2};
  return {engine.fprop(x, w), engine.dgrad(dy, w), engine.wgrad(x, dy)};
}

std::vector<double> rounded(std::vector<double> v) {
  for (double& x : v) x = std::round(x);
  return v;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("winograd: sums of integers are rounded to them, at every edge") {
  for (const convolution_problem& p : {convolution_problem{{16, 3, 3}, 32, 3, 1, 1},
                                       {{5, 4, 7}, 37, 3, 1, 1},
                                       {{37, 8, 8}, 6, 3, 1, 1},
                                       {{16, 9, 5}, 24, 3, 1, 1},
                                       {{24, 3, 10}, 16, 3, 1, 1},
                                       {{160, 5, 6}, 144, 3, 1, 1},
                                       {{16, 9, 10}, 17, 3, 1, 1}}) {
    CAPTURE(describe(p));
    REQUIRE(winograd::uses_tiles<float>(p));
    const auto x = rounded(random_numbers(2 * p.in.size(), 1)),
               w = rounded(random_numbers(p.weights(), 2)),
               dy = rounded(random_numbers(2 * p.out().size(), 3));
    auto sums = all_directions<winograd, float>(p, x, w, dy);
    for (auto& direction : sums) direction = rounded(direction);
    CHECK(sums == all_directions<direct, double>(p, x, w, dy));
  }
}

TEST_CASE("winograd: problems without tiles have the bits of engine direct") {
  for (const convolution_problem& p : {convolution_problem{{15, 8, 8}, 16, 3, 1, 1},
                                       {{32, 8, 8}, 32, 3, 2, 1},
                                       {{32, 8, 8}, 32, 1, 1, 0},
                                       {{3, 8, 8}, 32, 3, 1, 1},
                                       {{32, 8, 8}, 3, 3, 1, 1},
                                       {{32, 2, 8}, 32, 3, 1, 1},
                                       {{32, 8, 8}, 32, 3, 1, 0},
                                       {{32, 8, 8}, 32, 5, 1, 2}}) {
    CAPTURE(describe(p));
    CHECK(!winograd::uses_tiles<float>(p));
    const auto x = random_numbers(2 * p.in.size(), 1), w = random_numbers(p.weights(), 2),
               dy = random_numbers(2 * p.out().size(), 3);
    CHECK(all_directions<winograd, float>(p, x, w, dy) ==
          all_directions<direct, float>(p, x, w, dy));
  }
}

TEST_CASE("winograd: 16 channels and 16 filters are tiles for registers of 64 bytes alone") {
  const convolution_problem p{{16, 32, 32}, 16, 3, 1, 1};
  CHECK(detail::ops::winograd_with<64>::uses_tiles<float>(p));
  CHECK(!detail::ops::winograd_with<32>::uses_tiles<float>(p));
  CHECK(!detail::ops::winograd_with<16>::uses_tiles<float>(p));
}

TEST_CASE("winograd: errors at most 1.2 times those of engine direct") {
  const convolution_problem p{{64, 14, 14}, 64, 3, 1, 1};
  auto x = random_numbers(2 * p.in.size(), 1), w = random_numbers(p.weights(), 2),
       dy = random_numbers(2 * p.out().size(), 3);
  for (auto* v : {&x, &w, &dy})
    for (double& number : *v) number = static_cast<float>(number);
  const auto exact = all_directions<direct, double>(p, x, w, dy),
             tiles = all_directions<winograd, float>(p, x, w, dy),
             sums = all_directions<direct, float>(p, x, w, dy);
  for (std::size_t direction = 0; direction < 3; ++direction) {
    CAPTURE(direction);
    CHECK(distance(tiles[direction], exact[direction]) <=
          1.2 * distance(sums[direction], exact[direction]));
  }
}
