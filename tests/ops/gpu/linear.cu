// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/device/cuda.cuh>

#include "tests/ops/gpu/linear.hpp"

using namespace support;

TEST_CASE_TEMPLATE("linear on a GPU: the three products are exact, rounded once", N, cordee::half,
                   bfloat, float) {
  linear_is_the_cpus<N, float>(device_fixture{gpu{}});
}
