// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/device/cuda.cuh>

#include "tests/ops/grid/wmma/convolution.hpp"
#include "tests/support/has_gpu.cuh"

using namespace support;

static_assert(ConvolutionEngine<wmma, cordee::half, float, gpu::stream>);

TEST_CASE_TEMPLATE("wmma on a GPU: every pass of every shape is the definition, rounded once", N,
                   cordee::half, bfloat) {
  if (!has_gpu()) return;
  for (const convolution_problem& p : tensor_shapes)
    for (const int samples : {0, 1, 3}) {
      wmma_is_the_definition<N>(bench_on{gpu{}}, p, samples);
      if (samples == 3) wmma_batch_is_its_samples<N>(bench_on{gpu{}}, p, samples);
      if (samples == 3) wmma_is_the_definition<N, nearly>(bench_on{gpu{}}, p, samples);
    }
}
