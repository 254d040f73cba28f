// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/device/cuda.cuh>

#include "tests/ops/engines/tensor_core/engine.hpp"

using namespace support;

static_assert(ConvolutionEngine<tensor_core, cordee::half, float, gpu::stream>);

TEST_CASE_TEMPLATE(
    "tensor_core on a GPU: every pass of every shape equals the definition, rounded once", N,
    cordee::half, bfloat) {
  for (const convolution_problem& p : tensor_shapes)
    for (const int samples : {0, 1, 3}) {
      tensor_core_is_the_definition<N>(device_fixture{gpu{}}, p, samples);
      if (samples == 3) tensor_core_batch_is_its_samples<N>(device_fixture{gpu{}}, p, samples);
      if (samples == 3) tensor_core_is_the_definition<N, nearly>(device_fixture{gpu{}}, p, samples);
    }
}
