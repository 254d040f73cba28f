// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/device/cuda.cuh>

#include "tests/ops/grid/wmma/bytes.hpp"
#include "tests/support/has_gpu.cuh"

using namespace support;

TEST_CASE("wmma on a GPU: bytes are convolved exactly, and gradients are what quantisation left") {
  if (!has_gpu()) return;
  const bench_on at{gpu{}};
  for (const convolution_problem& p : byte_shapes)
    for (const int zero : {0, 128, 255}) check_bytes<wmma>(p, zero == 0 ? 5 : 1, zero, at);
  for (const convolution_problem& p : byte_gradient_shapes)
    for (const int samples : {0, 1, 3}) byte_gradients_are_the_definitions(at, p, samples);
  the_largest_sums_do_not_saturate(at);
}
