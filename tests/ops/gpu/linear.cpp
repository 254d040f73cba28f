// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/gpu/linear.hpp"

#include "tests/support/emulated.hpp"

using namespace support;

TEST_CASE_TEMPLATE("linear on a GPU, emulated: the three products are exact, rounded once", N, half,
                   bfloat, float) {
  for (const std::uint64_t seed : {1u, 2u})
    linear_is_the_cpus<N, float>(device_fixture{emulated{seed}});
}
TEST_CASE("linear on a GPU, emulated: doubles are summed in double") {
  linear_is_the_cpus<double, double>(device_fixture{emulated{3}});
}
