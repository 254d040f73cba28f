// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/gpu/pooling_laws.hpp"
#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

TEST_CASE_TEMPLATE("pooling on a GPU, emulated: values, argmax and gradients equal the CPU's", N,
                   half, bfloat, float, double) {
  for (const std::uint64_t seed : {1u, 2u}) check_pooling<N>(emulated(seed));
}

TEST_CASE_TEMPLATE("pooling on a GPU, emulated: NaN propagates, and maxima may be negative", N,
                   half, float) {
  const max_pool_problem at{{2, 5, 5}, 3, 2, 1};
  const pooling_fixture<N, emulated> on{emulated(), 1};
  const auto numbers = representable_normals<N>(at.in.size(), 1);
  for (std::size_t bad = 0; bad < numbers.size(); ++bad) {
    auto x = numbers;
    x[bad] = std::nan("");
    x[(bad + 7) % x.size()] = std::nan("");
    on.template maximum<8>(at, x);
  }
  auto x = numbers;
  for (double& one : x) one = -1 - std::abs(one);
  for (double& one : x) one = to_double(nearest<N>(one));
  on.template maximum<1>(at, x);
  on.template maximum<8>(at, std::vector<double>(x.size(), -HUGE_VAL));
}
