// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/device/cuda.cuh>

#include "tests/ops/grid/encode.hpp"
#include "tests/support/has_gpu.cuh"

using namespace support;

TEST_CASE("encode on a GPU: scale, numbers and loss are the CPU's") {
  if (!has_gpu()) return;
  for (const std::size_t n : {1u, 257u, 16385u}) {
    encodes_alike<fp16>(gpu{}, noise(n, 1));
    encodes_alike<int8>(gpu{}, noise(n, 2));
  }
}
