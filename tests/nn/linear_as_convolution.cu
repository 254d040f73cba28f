// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/cordee.cuh>

#include "tests/nn/linear_as_convolution.hpp"

using namespace support;

TEST_CASE_TEMPLATE("linear by convolutions on a GPU: products are the CPU's, rounded", P, fp16,
                   bf16) {
  linear_by_convolution_is_the_cpus<P, tensor_core>(gpu{});
}
