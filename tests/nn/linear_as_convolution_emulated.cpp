// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/ops/engines/tensor_core/engine.hpp>
#include <cordee/ops/gpu/elementwise.hpp>

#include "tests/nn/linear_as_convolution.hpp"
#include "tests/support/emulated.hpp"

using namespace support;

#if defined(CORDEE_ALL_TESTS)
#define PRECISIONS_OF_16_BITS fp16, bf16
#else
#define PRECISIONS_OF_16_BITS fp16
#endif
TEST_CASE_TEMPLATE("linear by convolutions, emulated: products are the CPU's, rounded", P,
                   PRECISIONS_OF_16_BITS) {
  for (const std::uint64_t seed : {1u, 2u})
    linear_by_convolution_is_the_cpus<P, tensor_core>(emulated{seed});
}
