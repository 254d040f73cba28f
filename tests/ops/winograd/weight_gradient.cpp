// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Groups and sets; that the sums are weight gradients in all shapes, convolution_winograd.cpp says.
#include <cmath>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/winograd/weight_gradient.hpp>

#include "tests/support/direct_engines.hpp"

using namespace cordee;
using namespace cordee::detail;
using namespace support;

namespace {

constexpr int V = lanes<float>;

/// Multiples of four, whose quarters are whole.
std::vector<double> fours(std::size_t n, std::uint32_t seed) {
  std::vector<double> v = random_numbers(n, seed);
  for (double& x : v) x = 4 * std::round(x);
  return v;
}

}  // namespace

TEST_CASE("winograd: groups of samples are eight, or fewer where filters make tasks enough") {
  const auto groups = [](int filters, int samples) {
    const convolution_problem p{{32, 8, 8}, filters, 3, 1, 1};
    return winograd_weight_gradient<float, V>(p).workspace(samples) /
           winograd_weights<float, V>(filters, 32).size();
  };
  CHECK(groups(64, 128) == 8);
  CHECK(groups(64, 3) == 3);
  CHECK(groups(128, 128) == 4);
  CHECK(groups(512, 128) == 1);
  CHECK(groups(2048, 128) == 1);
  CHECK(groups(64, 0) == 1);
}

TEST_CASE(
    "winograd: whatever the groups and the sets of filters, whole weight gradients are exact") {
  for (const convolution_problem& p :
       {convolution_problem{{20, 5, 6}, 260, 3, 1, 1}, {{70, 9, 7}, 36, 3, 1, 1}})
    for (const int samples : {0, 1, 11})
      for (const int workers : {1, 3}) {
        CAPTURE(to_text(p));
        CAPTURE(samples);
        CAPTURE(workers);
        const cpu device(workers);
        const std::size_t n = support::size(samples);
        const auto x = fours(n * p.in.size(), 1), dy = fours(n * p.out().size(), 2),
                   before = fours(p.weights(), 3);
        harness<direct, double> exact{p, samples};
        const winograd_weight_gradient<float, V> pass(p);
        const std::vector<float> in = blocked<float>(x, p.in, samples, V),
                                 errors = blocked<float>(dy, p.out(), samples, V);
        std::vector<float> memory(pass.workspace(samples), 99), dw(before.begin(), before.end());
        pass.run(samples, in.data(), errors.data(), dw.data(), into::add, memory.data(),
                 device.open());
        CHECK(std::vector<double>(dw.begin(), dw.end()) == exact.wgrad(x, dy, before));
        pass.run(samples, in.data(), errors.data(), dw.data(), into::overwrite, memory.data(),
                 device.open());
        CHECK(std::vector<double>(dw.begin(), dw.end()) == exact.wgrad(x, dy));
      }
}
