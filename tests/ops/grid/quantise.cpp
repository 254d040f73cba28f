// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/grid/quantise.hpp"

#include "tests/support/emulated.hpp"

using namespace support;

TEST_CASE("quantisation on grids: ranges, what is left, masks and filters are the CPU's") {
  for (const std::uint64_t seed : {1u, 2u}) {
    const bench_on at{emulated{seed}};
    noting_is_the_cpus(at);
    recalling_says_whether_there_was_a_range(at);
    simulation_and_mask_are_the_cpus(at);
    filters_are_the_cpus(at);
  }
}
