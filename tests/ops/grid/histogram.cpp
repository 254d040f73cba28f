// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/grid/quantise.hpp"
#include "tests/support/emulated.hpp"

using namespace support;

TEST_CASE("histograms on grids count what the CPU's do") {
  for (const std::uint64_t seed : {1u, 2u}) counts_are_the_cpus(bench_on{emulated{seed}});
}
