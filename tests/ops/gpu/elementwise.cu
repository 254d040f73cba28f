// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/device/cuda.cuh>

#include "tests/ops/gpu/elementwise_laws.hpp"

using namespace cordee;
using namespace support;

TEST_CASE_TEMPLATE("elementwise on a GPU: every pass is the CPU's, rounded once", N, fp16::storage,
                   bf16::storage, float) {
  check_elementwise<N>(gpu{});
}
