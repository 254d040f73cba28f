// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/device/cuda.cuh>

#include "tests/ops/grid/convolution_reference.hpp"
#include "tests/support/has_gpu.cuh"

using namespace support;

static_assert(ConvolutionEngine<reference, cordee::half, float, gpu::stream>);

TEST_CASE_TEMPLATE("reference on a GPU: three sums, exact, rounded once", N, cordee::half, bfloat,
                   float) {
  if (has_gpu()) reference_is_the_definition<N, float>(bench_on{gpu{}});
}
