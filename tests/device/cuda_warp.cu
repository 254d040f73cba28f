// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/device/cuda.cuh>

#include "tests/support/has_gpu.cuh"
#include "tests/support/warps.hpp"

using namespace support;

static_assert(MatrixBlock<detail::cuda_block<128>>);

TEST_CASE_TEMPLATE("warp on a GPU: 32 lanes make the product of what lies in shared memory", Words,
                   half_words, bfloat_words, byte_words) {
  if (has_gpu()) products_are_right<Words>(bench_on{gpu{}});
}
