// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/grid/linear.hpp"

#include "tests/support/emulated.hpp"

using namespace support;

TEST_CASE_TEMPLATE("linear on grids: three products, exact, rounded once", N, half, bfloat, float) {
  for (const std::uint64_t seed : {1u, 2u}) linear_is_the_cpus<N, float>(bench_on{emulated{seed}});
}
TEST_CASE("linear on grids: doubles are summed in double") {
  linear_is_the_cpus<double, double>(bench_on{emulated{3}});
}
