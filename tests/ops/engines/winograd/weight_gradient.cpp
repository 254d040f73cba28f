// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Groups of rows and parts of filters; tests/ops/engines/winograd/engine.cpp tests all shapes.
#include <cmath>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/winograd/weight_gradient.hpp>

#include "tests/support/direct_engines.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

constexpr int V = lanes<float>;

/// Multiples of four, whose quarters are integers.
std::vector<double> multiples_of_4(std::size_t n, std::uint32_t seed) {
  std::vector<double> v = random_numbers(n, seed);
  for (double& x : v) x = 4 * std::round(x);
  return v;
}

}  // namespace

TEST_CASE("winograd_weight_gradient: eight groups, or fewer where there are many filters") {
  const auto groups = [](int filters, int samples) {
    const convolution_problem p{{32, 8, 8}, filters, 3, 1, 1};
    return winograd_weight_gradient<float, V>(p).workspace(samples) /
           winograd_weights<V>(2, filters, 32).size();
  };
  CHECK(groups(64, 128) == 8);
  CHECK(groups(64, 3) == 3);
  CHECK(groups(128, 128) == 4);
  CHECK(groups(512, 128) == 1);
  CHECK(groups(2048, 128) == 1);
  CHECK(groups(64, 0) == 1);
}

TEST_CASE(
    "winograd_weight_gradient: sums of integers are exact, with any groups and parts of filters") {
  for (const convolution_problem& p :
       {convolution_problem{{20, 5, 6}, 260, 3, 1, 1}, {{70, 9, 7}, 36, 3, 1, 1}})
    for (const int samples : {0, 1, 11})
      for (const int workers : {1, 3}) {
        CAPTURE(describe(p));
        CAPTURE(samples);
        CAPTURE(workers);
        const cpu device(workers);
        const std::size_t n = support::size(samples);
        const auto x = multiples_of_4(n * p.in.size(), 1),
                   dy = multiples_of_4(n * p.out().size(), 2),
                   before = multiples_of_4(p.weights(), 3);
        harness<direct, double> exact{p, samples};
        const winograd_weight_gradient<float, V> pass(p);
        const std::vector<float> in = nchw_to_blocked<float>(x, p.in, samples, V),
                                 blocked_dy = nchw_to_blocked<float>(dy, p.out(), samples, V);
        std::vector<float> workspace(pass.workspace(samples), 99), dw(before.begin(), before.end());
        pass.run(samples, in.data(), blocked_dy.data(), dw.data(), write_mode::add,
                 workspace.data(), device.make_stream());
        CHECK(std::vector<double>(dw.begin(), dw.end()) == exact.wgrad(x, dy, before));
        pass.run(samples, in.data(), blocked_dy.data(), dw.data(), write_mode::overwrite,
                 workspace.data(), device.make_stream());
        CHECK(std::vector<double>(dw.begin(), dw.end()) == exact.wgrad(x, dy));
      }
}
