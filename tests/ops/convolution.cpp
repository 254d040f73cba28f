// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Engines `reference` and `direct` pass the laws of engines in all precisions.
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/reference/engine.hpp>

#include "tests/support/direct_engines.hpp"
#include "tests/support/engine_laws.hpp"
#include "tests/support/further_types.hpp"

using namespace cordee;
using namespace support;

ENGINE_LAWS(engine_of<reference, double>, engine_of<direct, float>,
            engine_of<direct, bfloat> FURTHER_TYPES(
                , engine_of<reference, float>, engine_of<direct, double>,
                engine_of<reference, half>, engine_of<reference, bfloat>, engine_of<direct, half>));

TEST_CASE_TEMPLATE("gradients equal finite differences", T, engine_of<reference, double>,
                   engine_of<direct, double>) {
  // L = <g, y> + |y|^2 / 2 is quadratic in x and in w, so central differences of any length are
  // exact but for rounding.
  for (const convolution_problem& p : {convolution_problem{{5, 6, 7}, 9, 3, 1, 1},
                                       {{16, 7, 7}, 8, 3, 2, 1},
                                       {{3, 9, 8}, 16, 5, 2, 2},
                                       {{8, 5, 4}, 16, 1, 2, 0}}) {
    INFO(T::engine::name, " ", describe(p));
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
      const std::vector<double> center = point;
      double difference = 0;
      for (const double sign : {1.0, -1.0}) {
        for (std::size_t i = 0; i < point.size(); ++i)
          point[i] = center[i] + sign * direction[i] / 8;
        difference += sign * loss();
      }
      point = center;
      return difference * 4;
    };
    const auto along_x = random_numbers(x.size(), 4), along_w = random_numbers(w.size(), 5);
    const double expected_x = dot(engine.dgrad(dy, w), along_x);
    const double expected_w = dot(engine.wgrad(x, dy), along_w);
    CHECK(slope_along(x, along_x) == doctest::Approx(expected_x).epsilon(1e-10));
    CHECK(slope_along(w, along_w) == doctest::Approx(expected_w).epsilon(1e-10));
  }
}

TEST_CASE(
    "convolution_problem: multiplications and parameters of ResNet-20 are those of the "
    "literature") {
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
