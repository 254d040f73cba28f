// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Layout and precision of engine `reference`; tests/ops/convolution.cpp tests its convolutions.
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/reference/engine.hpp>

#include "tests/support/engines.hpp"

using namespace cordee;
using namespace support;

static_assert(!ConvolutionEngine<reference, int> && !ConvolutionEngine<cpu, float>);

TEST_CASE("reference: plain NCHW, packed weights equal the master, no workspace") {
  for (const int channels : {1, 3, 16, 17}) CHECK(reference::block<float>(channels) == 1);
  const convolution_problem p{{3, 5, 4}, 7, 3, 1, 1};
  CHECK(reference::packed_size<double>(p) == p.weights());
  CHECK(reference::workspace<double>(p, 100, {}) == 0);
  const auto w = random_numbers(p.weights(), 1);
  CHECK(harness<reference, double>{p}.packed(w) == w);
}

TEST_CASE("reference: an example worked by hand") {
  // One channel, 3 x 3, stride 2, padding 1: four windows, centered at the corners of the image.
  const convolution_problem p{{1, 3, 3}, 1, 3, 2, 1};
  harness<reference, double> engine{p};
  const std::vector<double> x{1, 2, 3, 4, 5, 6, 7, 8, 9}, w{1, 10, 100, 2, 20, 200, 3, 30, 300};
  const std::vector<double> y{20 * 1 + 200 * 2 + 30 * 4 + 300 * 5, 2 * 2 + 20 * 3 + 3 * 5 + 30 * 6,
                              10 * 4 + 100 * 5 + 20 * 7 + 200 * 8, 1 * 5 + 10 * 6 + 2 * 8 + 20 * 9};
  CHECK(engine.fprop(x, w) == y);
  const std::vector<double> dy{1, 2, 3, 4};
  CHECK(engine.dgrad(dy, w) == std::vector<double>{20, 200 + 2 * 2, 2 * 20, 30 + 3 * 10,
                                                   300 + 2 * 3 + 3 * 100 + 4 * 1, 2 * 30 + 4 * 10,
                                                   3 * 20, 3 * 200 + 4 * 2, 4 * 20});
  CHECK(engine.wgrad(x, dy)[4] == 1 * 1 + 2 * 3 + 3 * 7 + 4 * 9);
  CHECK(engine.wgrad(x, dy)[0] == 4 * 5);
}

TEST_CASE("reference: sums are computed in double, in any precision") {
  const std::vector<double> big{1e8, 1, -1e8}, ones{1, 1, 1};  // in float, 1e8 + 1 = 1e8
  const convolution_problem channels{{3, 1, 1}, 1, 1, 1, 0}, filters{{1, 1, 1}, 3, 1, 1, 0},
      pixels{{1, 1, 3}, 1, 1, 1, 0};
  CHECK(harness<reference, float>{channels}.fprop(big, ones) == std::vector<double>{1});
  CHECK(harness<reference, float>{filters}.dgrad(big, ones) == std::vector<double>{1});
  CHECK(harness<reference, float>{pixels}.wgrad(big, ones) == std::vector<double>{1});
}

TEST_CASE("reference: the parts of a weight's gradient add up to it, however many there are") {
  for (const int width : {1, 2, 3, 7, 8, 31, 32, 33, 40}) {
    const convolution_problem p{{2, 5, width}, 3, 3, 1, 1};
    constexpr std::size_t samples = 2;
    // Integers, whose sums do not depend on the order.
    std::vector<double> x(samples * p.in.size()), dy(samples * p.out().size());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i * 7 % 11) - 5;
    for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<double>(i * 5 % 13) - 6;
    const detail::ops::reference_wgrad_sum<double, double> part{p, samples, x.data(), dy.data()};
    const std::vector<double> whole = harness<reference, double>{p, samples}.wgrad(x, dy);
    for (const std::size_t parts : {1u, 2u, 3u, 5u, 8u, 32u, 100u})
      for (std::size_t weight = 0; weight < p.weights(); ++weight) {
        double sum = 0;
        for (std::size_t k = 0; k < parts; ++k) sum += part(weight, k, parts);
        CHECK(sum == whole[weight]);
      }
  }
}
