// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/device/cuda.cuh>

#include "tests/ops/grid/pooling_laws.hpp"
#include "tests/support/has_gpu.cuh"

using namespace cordee;
using namespace support;

TEST_CASE_TEMPLATE("pools on a GPU: values, places and gradients are the CPU's", N, fp16::storage,
                   bf16::storage, float) {
  if (has_gpu()) check_pools<N>(gpu{});
}
