// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/device/cuda.cuh>

#include "tests/ops/grid/quantise.hpp"
#include "tests/support/has_gpu.cuh"

using namespace support;

TEST_CASE("quantisation on a GPU: ranges, what is left, masks, filters and counts are the CPU's") {
  if (!has_gpu()) return;
  const bench_on at{gpu{}};
  noting_is_the_cpus(at);
  recalling_says_whether_there_was_a_range(at);
  simulation_and_mask_are_the_cpus(at);
  filters_are_the_cpus(at);
  counts_are_the_cpus(at);
}
