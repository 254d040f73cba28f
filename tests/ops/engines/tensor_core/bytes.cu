// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/device/cuda.cuh>

#include "tests/ops/engines/tensor_core/bytes.hpp"

using namespace support;

TEST_CASE(
    "tensor_core on a GPU: byte convolutions are exact, and gradients those of dequantized "
    "numbers") {
  const device_fixture at{gpu{}};
  for (const convolution_problem& p : byte_shapes)
    for (const int zero : {0, 128, 255}) check_bytes<tensor_core>(p, zero == 0 ? 5 : 1, zero, at);
  for (const convolution_problem& p : byte_gradient_shapes)
    for (const int samples : {0, 1, 3}) byte_gradients_are_the_definitions(at, p, samples);
  the_largest_sums_do_not_saturate(at);
}
