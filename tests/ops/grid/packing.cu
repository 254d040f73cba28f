// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/device/cuda.cuh>

#include "tests/ops/grid/packing.hpp"
#include "tests/support/has_gpu.cuh"

using namespace support;

TEST_CASE_TEMPLATE("packing on a GPU: rounded, and as defined", N, cordee::half, bfloat, float) {
  if (!has_gpu()) return;
  conversion_is_rounding<N, float>(bench_on{gpu{}});
  packing_is_its_definition<N, float>(bench_on{gpu{}});
}
