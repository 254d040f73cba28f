// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/device/cuda.cuh>

#include "tests/ops/engines/reference/gpu.hpp"

using namespace support;

static_assert(ConvolutionEngine<reference, cordee::half, float, gpu::stream>);

TEST_CASE_TEMPLATE("reference on a GPU: the three passes are exact sums, rounded once", N,
                   cordee::half, bfloat, float) {
  reference_is_the_definition<N, float>(device_fixture{gpu{}});
}
