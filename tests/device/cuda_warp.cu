// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/device/cuda.cuh>

#include "tests/support/mma_laws.hpp"

using namespace support;

static_assert(detail::device::MmaBlock<detail::device::cuda_thread_block<128>>);

TEST_CASE_TEMPLATE(
    "warp on a GPU: ldmatrix and mma compute the product of matrices in shared memory", Mma,
    detail::device::mma_f16, detail::device::mma_bf16, detail::device::mma_u8s8) {
  check_products<Mma>(device_fixture{gpu{}});
}
