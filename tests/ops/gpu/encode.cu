// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/device/cuda.cuh>

#include "tests/ops/gpu/encode.hpp"

using namespace support;

TEST_CASE("encode on a GPU: scale, numbers and residual equal the CPU's") {
  for (const std::size_t n : {1u, 257u, 16385u}) {
    check_encode<fp16>(gpu{}, noise(n, 1));
    check_encode<int8>(gpu{}, noise(n, 2));
  }
}
