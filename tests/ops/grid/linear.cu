// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/device/cuda.cuh>

#include "tests/ops/grid/linear.hpp"
#include "tests/support/has_gpu.cuh"

using namespace support;

TEST_CASE_TEMPLATE("linear on a GPU: three products, exact, rounded once", N, cordee::half, bfloat,
                   float) {
  if (has_gpu()) linear_is_the_cpus<N, float>(bench_on{gpu{}});
}
