// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/device/cuda.cuh>

#include "tests/ops/gpu/pooling_laws.hpp"

using namespace cordee;
using namespace support;

TEST_CASE_TEMPLATE("pooling on a GPU: values, argmax and gradients equal the CPU's", N,
                   fp16::storage, bf16::storage, float) {
  check_pooling<N>(gpu{});
}
